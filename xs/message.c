/*
 * What front and zygote say to each other: orders are read here, and reports written, by records that
 * crates/wire/src/zygote.rs declares. docs/zygote-protocol.md tells when each is sent. control.c, which moves the packets,
 * calls this; so do the doors by which Perl's tests compare it with the Rust side.
 */
#include "howdah.h"
#include "control.h"

/* Letters: nothing that could end a string, or a record of the error log. */
static bool is_secret(const U8 *secret) {
    for (int i = 0; i < ZYGOTE_SECRET; i++)
        if (secret[i] <= ' ' || secret[i] >= 0x7f)
            return false;
    return true;
}

static bool is_attach(const OrderRecord *order) {
    U32 others = 1 + (order->flags & ZYGOTE_ERRORS ? 1 : 0);
    if (order->worker || order->flags & ~(ZYGOTE_TITLES | ZYGOTE_ERRORS))
        return false;
    if (order->flags & ZYGOTE_ERRORS && !is_secret(order->secret))
        return false;
    return order->descriptors > others && order->descriptors - others <= MAX_FRONTS;
}

/* What only an attach uses is 0, as in a record with nothing but these three. */
static bool is_bare(const OrderRecord *order) {
    OrderRecord bare = {.kind = order->kind, .descriptors = order->descriptors, .worker = order->worker};
    return memcmp(order, &bare, sizeof bare) == 0;
}

/* Its number stands where an attach has flags. */
static bool is_signal(const OrderRecord *order) {
    OrderRecord bare = *order;
    bare.flags = 0;
    return order->flags >= 1 && order->flags <= ZYGOTE_SIGNALS && is_bare(&bare) && order->worker < MAX_WORKERS &&
           !order->descriptors;
}

static bool is_order(const OrderRecord *order) {
    switch (order->kind) {
    case ZYGOTE_ORDER_ATTACH: return is_attach(order);
    case ZYGOTE_ORDER_SEGMENT: return is_bare(order) && !order->worker && order->descriptors == 1;
    case ZYGOTE_ORDER_SPAWN:
        return is_bare(order) && order->worker < MAX_WORKERS && order->descriptors >= 1 && order->descriptors <= MAX_FRONTS;
    case ZYGOTE_ORDER_STOP: return is_bare(order) && !order->worker && !order->descriptors;
    case ZYGOTE_ORDER_SIGNAL: return is_signal(order);
    default: return false;
    }
}

/* False when a packet that came with so many descriptors is no order. */
bool hd_read_order(OrderRecord *order, const void *packet, size_t length, U32 descriptors) {
    if (length != sizeof *order)
        return false;
    memcpy(order, packet, sizeof *order);
    return order->descriptors == descriptors && is_order(order);
}

/* The parts of a packet; text that makes it too long is cut. */
void hd_write_report(struct iovec parts[2], const ReportRecord *report, const char *text, size_t length) {
    const size_t most = ZYGOTE_PACKET - sizeof *report;
    parts[0] = (struct iovec){(void *)report, sizeof *report};
    parts[1] = (struct iovec){(void *)text, length < most ? length : most};
}
