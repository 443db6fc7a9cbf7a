/* notify.h - what a service manager is told (sd_notify(3)), where one listens: $NOTIFY_SOCKET.
 *
 * Own lines instead of libsystemd: one datagram. */
#ifndef TW_NOTIFY_H
#define TW_NOTIFY_H

/* state: "READY=1". Nothing happens where nobody listens. Thread: main.  Blocks: no. */
void tw_notify(const char *state);

/* "WATCHDOG=1", as often as it is called; the manager says with $WATCHDOG_USEC how often it wants to hear it. */
#define TW_NOTIFY_ALIVE "WATCHDOG=1"

#endif
