/* turns.h - callers who want more of a thread than their share wait for the others.
 *
 * Each caller has a row of its own while it has calls open; beyond TURNS_ROWS callers at once two share one. What a row's messages cost the thread is counted in
 * windows of time: within its share they are served as they come; beyond it they wait in the row, and rows take turns
 * whenever nothing else has come. A thread alone owns it. */
#ifndef WIRE_TURNS_H
#define WIRE_TURNS_H

#include <tradewake/base/clock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TURNS_ROWS = 64 };
#define TURNS_WINDOW_NS (20 * TW_NS_PER_MS)
#define TURNS_SHARE_NS  (10 * TW_NS_PER_MS) /* a burst of 27 events with 30 followers each is 3 ms */

/* Embedded in what waits. */
struct turn {
    struct turn *next;
};

struct turns {
    uint64_t taken; /* rows in which somebody waits, a bit each */
    uint32_t next;  /* whose turn it is */
    const void *callers[TURNS_ROWS]; /* whose row it is; only compared */
    struct turns_row {
        struct turn *first, *last;
        int64_t window, used_ns; /* the window in which it was served last, and how long in it */
        uint32_t live;           /* calls that it has open */
    } rows[TURNS_ROWS];
};

/* Whether nothing of the row's caller is open, waits, or counts any more. */
static inline bool turns_is_idle(const struct turns *turns, uint32_t row, int64_t now_ns)
{
    const struct turns_row *own = &turns->rows[row];
    return own->live == 0 && own->first == NULL && own->window != now_ns / TURNS_WINDOW_NS;
}

/* The caller's row: the one it has, else an idle one, which is its own from now on; where there is none, that of another. */
static inline uint32_t turns_row(struct turns *turns, const void *caller, int64_t now_ns)
{
    for (uint32_t row = 0; row < TURNS_ROWS; row++)
        if (turns->callers[row] == caller)
            return row;
    uint64_t bits = (uint64_t)(uintptr_t)caller;
    bits = (bits ^ bits >> 33) * UINT64_C(0xff51afd7ed558ccd);
    uint32_t home = (uint32_t)((bits ^ bits >> 33) * UINT64_C(0xc4ceb9fe1a85ec53) >> 58);
    for (uint32_t i = 0; i < TURNS_ROWS; i++) {
        uint32_t row = (home + i) % TURNS_ROWS;
        if (turns_is_idle(turns, row, now_ns)) {
            turns->callers[row] = caller;
            turns->rows[row].used_ns = 0;
            return row;
        }
    }
    return home;
}

/* Whether a message of this row that comes now has to wait: behind others of its own, or because its share is used up. */
static inline bool turns_must_wait(const struct turns *turns, uint32_t row, int64_t now_ns)
{
    const struct turns_row *own = &turns->rows[row];
    return own->first != NULL || (own->window == now_ns / TURNS_WINDOW_NS && own->used_ns >= TURNS_SHARE_NS);
}

/* The thread was busy with a message of this row. */
static inline void turns_used(struct turns *turns, uint32_t row, int64_t from_ns, int64_t until_ns)
{
    struct turns_row *own = &turns->rows[row];
    int64_t window = until_ns / TURNS_WINDOW_NS;
    own->used_ns = (own->window == window ? own->used_ns : 0) + until_ns - from_ns;
    own->window = window;
}

static inline void turns_wait(struct turns *turns, uint32_t row, struct turn *turn)
{
    struct turns_row *own = &turns->rows[row];
    turn->next = NULL;
    if (own->first == NULL)
        own->first = turn;
    else
        own->last->next = turn;
    own->last = turn;
    turns->taken |= UINT64_C(1) << row;
}

static inline bool turns_is_empty(const struct turns *turns)
{
    return turns->taken == 0;
}

/* The oldest of the row whose turn it is; NULL: nobody waits. */
static inline struct turn *turns_take(struct turns *turns)
{
    if (turns->taken == 0)
        return NULL;
    uint64_t from_next = turns->taken & (UINT64_MAX << turns->next);
    uint32_t row = (uint32_t)__builtin_ctzll(from_next != 0 ? from_next : turns->taken);
    struct turns_row *own = &turns->rows[row];
    struct turn *turn = own->first;
    own->first = turn->next;
    if (own->first == NULL)
        turns->taken &= ~(UINT64_C(1) << row);
    turns->next = (row + 1) % TURNS_ROWS;
    return turn;
}

#endif
