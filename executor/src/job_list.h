/* job_list.h - jobs in a row, linked through the jobs themselves.
 *
 * A job stands in at most one list at a time. Whoever owns the list guards it. */
#ifndef TW_EXECUTOR_JOB_LIST_H
#define TW_EXECUTOR_JOB_LIST_H

#include <tradewake/executor/executor.h>

enum { CLASSES = 3 }; /* enum tw_job_class, best first */

struct job_list {
    struct tw_job *first, *last;
    uint32_t count;
};

static inline void job_list_append(struct job_list *list, struct tw_job *job)
{
    job->next = NULL;
    job->previous = list->last;
    if (list->last != NULL)
        list->last->next = job;
    else
        list->first = job;
    list->last = job;
    list->count++;
}

static inline void job_list_remove(struct job_list *list, struct tw_job *job)
{
    if (job->previous != NULL)
        job->previous->next = job->next;
    else
        list->first = job->next;
    if (job->next != NULL)
        job->next->previous = job->previous;
    else
        list->last = job->previous;
    list->count--;
}

static inline struct tw_job *job_list_take(struct job_list *list)
{
    struct tw_job *job = list->first;
    if (job != NULL)
        job_list_remove(list, job);
    return job;
}

#endif
