/* fair.h - jobs that wait for a thread, so that nobody's crowd stands in front of everybody.
 *
 * Best class first; inside a class one job of each tenant in turn, first in first out for each. Tenants are
 * numbers of the owner's; there are FAIR_ROWS rows, so two of them may share one. Whoever owns it guards it. */
#ifndef TW_EXECUTOR_FAIR_H
#define TW_EXECUTOR_FAIR_H

#include "job_list.h"

#include <stdint.h>

enum { FAIR_ROWS = 64 };

struct fair_list {
    uint64_t taken; /* rows that have a job, a bit each */
    uint32_t next;  /* whose turn it is */
    uint32_t count;
    struct job_list rows[FAIR_ROWS];
};

static inline uint32_t fair_row(const struct tw_job *job)
{
    return job->tenant % FAIR_ROWS;
}

static inline void fair_append(struct fair_list *list, struct tw_job *job)
{
    uint32_t row = fair_row(job);
    job_list_append(&list->rows[row], job);
    list->taken |= UINT64_C(1) << row;
    list->count++;
}

static inline void fair_remove(struct fair_list *list, struct tw_job *job)
{
    uint32_t row = fair_row(job);
    job_list_remove(&list->rows[row], job);
    if (list->rows[row].count == 0)
        list->taken &= ~(UINT64_C(1) << row);
    list->count--;
}

/* The job of the next row in turn; NULL when there is none. */
static inline struct tw_job *fair_take(struct fair_list *list)
{
    if (list->count == 0)
        return NULL;
    uint64_t from_next = list->taken & (UINT64_MAX << list->next);
    uint32_t row = (uint32_t)__builtin_ctzll(from_next != 0 ? from_next : list->taken);
    struct tw_job *job = list->rows[row].first;
    fair_remove(list, job);
    list->next = (row + 1) % FAIR_ROWS;
    return job;
}

#endif
