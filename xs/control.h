#ifndef HOWDAH_CONTROL_H
#define HOWDAH_CONTROL_H
/* What message.c, control.c, zygote.c, promote.c and others do for the zygote. */
#include "howdah.h"

#include <sys/uio.h>

#define HD_MOST_DESCRIPTORS 64

/* What the front says. */
struct hd_packet {
    bool understood; /* else it is no order */
    OrderRecord order; /* as it came, if it has the length of one */
    int count;
    int fds[HD_MOST_DESCRIPTORS];
};

/* message.c */
bool hd_read_order(OrderRecord *order, const void *packet, size_t length, U32 descriptors);
void hd_write_report(struct iovec parts[2], const ReportRecord *report, const char *text, size_t length);

/* control.c */
bool hd_receive(int fd, struct hd_packet *packet);
bool hd_send_report(int fd, const ReportRecord *report, const char *text, size_t length);
void hd_unblock_signals(void);
int hd_watch_children(void);
void hd_clear_children(int fd);
void hd_close_all(const int *fds, int count);

/* census.c */
bool hd_has_object(pTHX_ SV *class);

/* heap.c */
void hd_use_up_free_memory(pTHX);
void hd_use_huge_pages(void);

/* layout.c */
void hd_tell_layout(pTHX);

/* zygote.c */
pid_t hd_fork_perl(pTHX);
void hd_prepare(pTHX_ SV *name, bool titles);
bool hd_attach(pTHX_ int control, OrderRecord *order);

/* privileges.c */
void hd_leave_root(pTHX);
void hd_give_up_capabilities(pTHX);
AV *hd_groups_of(pTHX_ const char *name, UV primary);
bool hd_obey(pTHX_ int control, int ended, SV *before_fork);

/* promote.c */
const char *hd_left_by_fork(void);
void hd_refuse_promotion(const char *why);
int hd_promote(pTHX);
void hd_renew(pTHX);

#endif
