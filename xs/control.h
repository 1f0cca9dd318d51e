#ifndef HOWDAH_CONTROL_H
#define HOWDAH_CONTROL_H
/* What control.c does for the zygote. */
#include "howdah.h"

SV *hd_receive_packet(pTHX_ int fd, AV *fds);
bool hd_send_packet(int fd, const char *bytes, STRLEN length);
int hd_watch_children(void);
void hd_clear_children(int fd);
void hd_unwatch_children(void);

#endif
