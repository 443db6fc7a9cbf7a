/* library.h - one loaded library: what it says of itself, what it may be trusted with, what it has done wrong.
 *
 * Loaded once, never unloaded: a vendor's threads and thread-local destructors point into it. */
#ifndef PLUGIN_LIBRARY_H
#define PLUGIN_LIBRARY_H

#include "../tradewake_plugin.h"

#include <tradewake/adapters/plugin.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define LIBRARY_GRACE_NS (1000 * INT64_C(1000000)) /* after its deadline a call is lost, as for the executor */
enum { WORDS_MAX = 64, WORD_BYTES = 320 };

/* A call that somebody else has to see the end of: who makes it is in it. */
struct due {
    struct due *next;
    int64_t mono_ns; /* when it is over, and lost */
};

struct library {
    struct library *next; /* all that were ever loaded */

    /* Set when it is loaded, read-only afterwards: any thread. */
    char name[65];
    struct twp_caps caps; /* with our defaults in the place of 0 */
    struct twp_api api;   /* what it does not have is NULL */
    struct twp_host host;
    char *locale; /* of the process, before it was loaded */

    atomic_uint misbehaved; /* contract breaks so far */

    /* GLOBAL alone: one call at a time in the whole library. Guarded by gate.lock, which no call is made under. */
    struct {
        pthread_mutex_t lock;
        pthread_cond_t given;
        bool is_taken;
        int64_t due_mono_ns; /* when the call in it is over, and lost */
    } gate;

    /* Guarded by dues.lock. */
    struct {
        pthread_mutex_t lock;
        struct due *first;
    } dues;

    /* What it said through its log callback, and what we have to say of it: workers write no log lines, so it waits here
     * for library_words_tell(). Guarded by words.lock, which is held for a copy of one line. */
    struct {
        pthread_mutex_t lock;
        struct {
            int32_t level;
            bool is_ours;
            char text[WORD_BYTES];
        } lines[WORDS_MAX];
        unsigned n, dropped;
    } words;
};

/* Loads and checks; nothing of a session. Thread: main. Fails: TW_INVALID, TW_IO, TW_NO_MEMORY with words that name the
 * library and what is wrong with it. *ret stays for as long as the process: threads of the vendor's may log through it. */
TW_MUST_CHECK tw_status library_load(const struct tw_plugin_entry *entry, struct library **ret, struct tw_error *error);

/* Does it come in one of these, given what it declares? Words in error. */
TW_MUST_CHECK tw_status library_check(const struct twp_plugin *about, bool in_process, struct twp_caps *ret_caps,
                                      struct twp_api *ret_api, struct tw_error *error);

/* It broke the contract. Thread: any. */
void library_misbehaved(struct library *library, const char *what);
/* Writes down what has been said since the last time. Thread: any that may log. */
void library_words_tell(struct library *library);

/* Around all that is done with a session of it: where it takes one call at a time, this one's turn, for a call that ends by
 * call_until. False: it did not come until then, and nothing may be called. */
TW_MUST_CHECK bool library_turn_take(struct library *library, int64_t until_mono_ns, int64_t call_until_mono_ns);
void library_turn_give(struct library *library);
/* Around a call that orders wait behind, and nobody gives up but library_is_stuck(). *due is the library's until it is removed. */
void library_due_add(struct library *library, struct due *due, int64_t call_until_mono_ns);
void library_due_remove(struct library *library, struct due *due);
/* The call that has the turn, or one that is due, is lost: what waits for it waits for ever. Thread: any. */
bool library_is_stuck(struct library *library);

/* Around every call into it: what it must not change in our process is as it was. */
struct border {
    sigset_t mask;
};
void border_enter(struct border *border);
void border_leave(struct library *library, const struct border *border);

#endif
