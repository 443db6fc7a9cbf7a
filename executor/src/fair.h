/* fair.h - jobs that wait for a thread, so that nobody's crowd stands in front of everybody.
 *
 * Best class first; inside a class one job of each tenant in turn, first in first out for each. Tenants are
 * numbers of the owner's; there are FAIR_ROWS rows, so two of them may share one. Whoever owns it guards it. */
#ifndef TW_EXECUTOR_FAIR_H
#define TW_EXECUTOR_FAIR_H

#include "job_list.h"

#include <stdatomic.h>
#include <stdint.h>

enum { FAIR_ROWS = 64 };

struct fair_list {
    uint32_t next; /* whose turn it is */
    struct job_list rows[FAIR_ROWS];
    /* Written by the owner, read by anybody. */
    _Atomic uint64_t taken; /* rows that have a job, a bit each */
    _Atomic uint32_t count, waiting[FAIR_ROWS];
};

static inline uint32_t fair_row(uint32_t tenant)
{
    return tenant % FAIR_ROWS;
}

static inline uint32_t fair_count(const struct fair_list *list)
{
    return atomic_load_explicit(&list->count, memory_order_relaxed);
}

static inline uint64_t fair_taken(const struct fair_list *list)
{
    return atomic_load_explicit(&list->taken, memory_order_relaxed);
}

/* What anybody may read of this row, and of all: after it has one more or one less. */
static inline void fair_tell(struct fair_list *list, uint32_t row, uint32_t change)
{
    uint64_t bit = UINT64_C(1) << row, others = fair_taken(list) & ~bit;
    uint32_t waiting = list->rows[row].count;
    atomic_store_explicit(&list->waiting[row], waiting, memory_order_relaxed);
    atomic_store_explicit(&list->taken, waiting > 0 ? others | bit : others, memory_order_relaxed);
    atomic_store_explicit(&list->count, fair_count(list) + change, memory_order_relaxed);
}

static inline void fair_append(struct fair_list *list, struct tw_job *job)
{
    uint32_t row = fair_row(job->tenant);
    job_list_append(&list->rows[row], job);
    fair_tell(list, row, 1);
}

static inline void fair_remove(struct fair_list *list, struct tw_job *job)
{
    uint32_t row = fair_row(job->tenant);
    job_list_remove(&list->rows[row], job);
    fair_tell(list, row, UINT32_MAX);
}

/* How many go before a job of this tenant that comes now: its own, and of each other row as many turns, at most. */
static inline uint32_t fair_ahead(const struct fair_list *list, uint32_t tenant)
{
    uint32_t row = fair_row(tenant), count = fair_count(list);
    uint32_t own = atomic_load_explicit(&list->waiting[row], memory_order_relaxed);
    uint32_t others = (uint32_t)__builtin_popcountll(fair_taken(list) & ~(UINT64_C(1) << row));
    uint64_t ahead = own + (uint64_t)(own + 1) * others;
    return ahead < count ? (uint32_t)ahead : count;
}

/* The job of the next row in turn; NULL when there is none. */
static inline struct tw_job *fair_take(struct fair_list *list)
{
    uint64_t taken = fair_taken(list);
    if (taken == 0)
        return NULL;
    uint64_t from_next = taken & (UINT64_MAX << list->next);
    uint32_t row = (uint32_t)__builtin_ctzll(from_next != 0 ? from_next : taken);
    struct tw_job *job = list->rows[row].first;
    fair_remove(list, job);
    list->next = (row + 1) % FAIR_ROWS;
    return job;
}

#endif
