/* top_screen.h - what `tradewake top` draws on a terminal, with ncurses.
 *
 * The screen is drawn anew from a view each time; ncurses sends only what changed. Whatever does
 * not fit is left out from the bottom. Thread: main. */
#ifndef CLI_TOP_SCREEN_H
#define CLI_TOP_SCREEN_H

#include "facts.h"

#include <stddef.h>

/* A tick that is over. */
struct top_tick {
    int64_t at_wall_ns;
    struct times times;
};

enum { TOP_TICKS = 600 };

struct top_view {
    const char *server;
    const struct facts *facts;
    char trouble[FACTS_TEXT_BYTES]; /* why nobody answers; "" = all is well */
    bool is_held;
    int64_t interval_ns;
    struct top_tick ticks[TOP_TICKS]; /* a ring */
    size_t n_ticks;                   /* ever */
};

/* False: the terminal cannot do it (TERM is not known). */
bool top_screen_open(void);
void top_screen_close(void); /* the terminal as it was; safe to repeat */
void top_screen_draw(const struct top_view *view);
/* The next key, or -1 when none came within so long. */
int top_screen_key(int64_t within_ns);

#endif
