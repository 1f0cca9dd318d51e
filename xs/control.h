#ifndef HOWDAH_CONTROL_H
#define HOWDAH_CONTROL_H
/* What control.c and zygote.c do for the zygote. */
#include "howdah.h"

#define HD_MOST_DESCRIPTORS 64

/* What the front says. */
struct hd_packet {
    char text[128];
    int count;
    int fds[HD_MOST_DESCRIPTORS];
};

/* control.c */
bool hd_receive(int fd, struct hd_packet *packet);
bool hd_send_packet(int fd, const char *bytes, STRLEN length);
int hd_watch_children(void);
void hd_clear_children(int fd);
void hd_close_all(const int *fds, int count);

/* heap.c */
void hd_use_up_free_memory(pTHX);
void hd_use_huge_pages(void);

/* zygote.c */
void hd_prepare(pTHX_ SV *name, bool titles);
bool hd_obey(pTHX_ int control, int ended, SV *before_fork);

#endif
