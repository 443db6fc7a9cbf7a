#include <tradewake/journal/history.h>

#include "history_file.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GATHER_NS    (50 * TW_NS_PER_MS)  /* a burst has the cores to itself first, and is one transaction */
#define BATCH_NS_MAX (50 * TW_NS_PER_MS)  /* questions are answered in between */
#define SAFE_NS      (10 * TW_NS_PER_S)   /* so often is what was written also on the disk */
#define RETRY_NS_MIN TW_NS_PER_S
#define RETRY_NS_MAX (30 * TW_NS_PER_S)
#define OLD_NS       (60 * TW_NS_PER_S)
#define STOP_NS_MAX  TW_NS_PER_S
#define FAILING_NS_MAX (INT64_C(3600) * TW_NS_PER_S) /* then the log is not kept for it any more */
enum { RECORDS_PER_CLOCK = 16 };

struct tw_history {
    /* Set at start, read-only afterwards: any thread. */
    struct tw_history_options options;
    char *path, *log_dir, *log_id;
    pthread_t thread;

    /* Any thread. */
    _Atomic uint64_t durable;        /* of the log */
    _Atomic uint64_t taken, safe;    /* in the file; and over a power cut */
    _Atomic uint64_t forgotten_change_id;
    _Atomic int64_t failing_since_mono_ns; /* 0 = all is well */
    _Atomic bool is_idle;            /* waits for news: who has some wakes it */

    /* Guarded by mutex. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct tw_history_question *asked_oldest, **asked_end;
    bool is_stopping, is_stopped;

    /* The history thread's; before it runs, main's. */
    struct tw_history_file *file; /* NULL = failing */
    struct tw_journal_follow *follow;
    struct tw_history_question *questions; /* not ready yet */
    int64_t retry_mono_ns, retry_ns, safe_mono_ns, old_mono_ns, said_mono_ns;
    int64_t batch_until_mono_ns;
    uint32_t records;
    bool has_more; /* to do, at once */
};

/* ---- The file, and the log behind it ---- */

static void file_drop(struct tw_history *history)
{
    history_file_close(history->file);
    history->file = NULL;
    tw_journal_follow_close(history->follow);
    history->follow = NULL;
}

static void progress_publish(struct tw_history *history, bool is_safe)
{
    const struct history_progress *progress = &history->file->progress;
    atomic_store(&history->taken, progress->taken);
    atomic_store(&history->forgotten_change_id, progress->forgotten_change_id);
    if (is_safe) {
        atomic_store(&history->safe, progress->taken);
        history->safe_mono_ns = tw_mono_ns();
    }
}

static void fail(struct tw_history *history, const char *why)
{
    int64_t now_ns = tw_mono_ns();
    history->retry_ns = history->retry_ns == 0 ? RETRY_NS_MIN : history->retry_ns * 2;
    if (history->retry_ns > RETRY_NS_MAX)
        history->retry_ns = RETRY_NS_MAX;
    history->retry_mono_ns = now_ns + history->retry_ns;
    if (atomic_load(&history->failing_since_mono_ns) == 0)
        atomic_store(&history->failing_since_mono_ns, now_ns);
    if (history->said_mono_ns != 0 && now_ns - history->said_mono_ns < 600 * TW_NS_PER_S)
        return;
    history->said_mono_ns = now_ns;
    tw_log(TW_LOG_WARN, "history.behind", "file=%s why=\"%s\" orders=go_on next=tries_again", history->path, why);
}

static void recovered(struct tw_history *history)
{
    if (atomic_exchange(&history->failing_since_mono_ns, 0) != 0)
        tw_log(TW_LOG_INFO, "history.writes_again", "file=%s taken=%llu", history->path,
               (unsigned long long)history->file->progress.taken);
    history->retry_ns = 0;
    history->said_mono_ns = 0;
}

/* Why the file that is there is not this log's; NULL: it is. */
static const char *other_log(const struct tw_history *history, const struct history_progress *progress)
{
    if (strcmp(progress->log_id, history->log_id) != 0)
        return "it is of another log";
    return progress->taken > history->options.log_last ? "it is ahead of the log" : NULL;
}

struct comparing {
    uint64_t sequence;
    uint32_t crc;
};

static tw_status on_last(void *context, const struct tw_journal_seen *seen, struct tw_error *error)
{
    struct comparing *comparing = context;
    (void)error;
    comparing->sequence = seen->sequence;
    comparing->crc = seen->crc;
    return TW_OK;
}

/* The last record that was taken up is still the same. What has been removed cannot be compared. */
static tw_status last_compare(struct tw_history *history, bool *ret_same, struct tw_error *error)
{
    const struct history_progress *progress = &history->file->progress;
    struct tw_journal_follow *follow = NULL;
    struct comparing comparing = {0};
    uint64_t next = 0;
    *ret_same = true;
    if (progress->taken == 0)
        return TW_OK;
    tw_status status = tw_journal_follow_open(history->log_dir, progress->taken - 1, &follow, &next, error);
    if (status == TW_OK && next == progress->taken)
        status = tw_journal_follow_read(follow, progress->taken, on_last, &comparing, error);
    tw_journal_follow_close(follow);
    *ret_same = comparing.sequence == 0 || comparing.crc == progress->taken_crc;
    return status;
}

/* TW_OK with *ret_why: it is to be made anew. */
static tw_status file_open_there(struct tw_history *history, const char **ret_why, struct tw_error *error)
{
    bool is_same = true;
    *ret_why = NULL;
    tw_status status = history_file_open(history->path, &history->file, error);
    if (status == TW_NOT_FOUND || status == TW_UNSUPPORTED || status == TW_INVALID) {
        *ret_why = status == TW_NOT_FOUND ? "it is missing" : error->text;
        return TW_OK;
    }
    if (status != TW_OK)
        return status;
    *ret_why = other_log(history, &history->file->progress);
    if (*ret_why == NULL)
        status = last_compare(history, &is_same, error);
    if (!is_same)
        *ret_why = "the log has another record where it ended";
    return status;
}

static tw_status file_make(struct tw_history *history, const char *why, struct tw_error *error)
{
    char words[TW_ERROR_TEXT_BYTES];
    snprintf(words, sizeof words, "%s", why);
    file_drop(history);
    tw_status status = history_file_create(history->path, &history->options, &history->file, error);
    if (status == TW_OK)
        tw_log(TW_LOG_INFO, "history.made_anew", "file=%s why=\"%s\" from=\"the log that is there\"", history->path, words);
    return status;
}

/* Follows the log from where the file ends. What is gone of it is gone: told, and gone over. */
static tw_status log_follow(struct tw_history *history, struct tw_error *error)
{
    struct history_progress *progress = &history->file->progress;
    uint64_t next = 0;
    tw_status status = tw_journal_follow_open(history->log_dir, progress->taken, &history->follow, &next, error);
    if (status != TW_OK || next == progress->taken + 1)
        return status;
    if (progress->taken > 0)
        tw_log(TW_LOG_WARN, "history.gap", "file=%s from=%llu to=%llu", history->path,
               (unsigned long long)progress->taken + 1, (unsigned long long)next - 1);
    progress->taken = next - 1;
    progress->taken_crc = 0;
    progress->forgotten_change_id = progress->taken * TW_HISTORY_PLACES + TW_HISTORY_PLACES - 1;
    progress->is_partial = true;
    return TW_OK;
}

static tw_status file_open(struct tw_history *history, struct tw_error *error)
{
    const char *why = NULL;
    tw_status status = file_open_there(history, &why, error);
    if (status == TW_OK && why != NULL)
        status = file_make(history, why, error);
    else if (status == TW_OK) {
        status = history_begin(history->file, true, error); /* a newer version has more tables and words */
        if (status == TW_OK)
            status = history_schema_complete(history->file, error);
        if (status == TW_OK)
            status = history_words_put(history->file, &history->options, error);
        if (status == TW_OK)
            status = history_commit(history->file, error);
    }
    if (status == TW_OK)
        status = log_follow(history, error);
    if (status != TW_OK) {
        file_drop(history);
        return status;
    }
    progress_publish(history, false);
    return TW_OK;
}

/* ---- Taking up ---- */

static tw_status on_record(void *context, const struct tw_journal_seen *seen, struct tw_error *error)
{
    struct tw_history *history = context;
    if (++history->records % RECORDS_PER_CLOCK == 0 && tw_mono_ns() > history->batch_until_mono_ns)
        return TW_ENDED;
    tw_status status = history->options.take(history->options.context, history->file, seen, error);
    if (status != TW_OK)
        return status;
    history->file->progress.taken = seen->sequence;
    history->file->progress.taken_crc = seen->crc;
    return TW_OK;
}

/* After a failure in a transaction: nothing of it is there. */
static void batch_undo(struct tw_history *history, const struct history_progress *before, tw_status status,
                       const char *why)
{
    bool is_damaged = history->file->is_damaged;
    struct tw_error error = {0};
    history_rollback(history->file);
    history->file->progress = *before;
    if (status == TW_INVALID) /* the log cannot be understood, or is damaged: another try will not help soon */
        history->retry_ns = RETRY_NS_MAX;
    if (is_damaged && file_make(history, why, &error) == TW_OK)
        (void)log_follow(history, &error);
    else
        file_drop(history); /* opened anew: whatever state it was in */
    fail(history, why);
}

/* One transaction: as much as there is, or as time allows. */
static void batch_take(struct tw_history *history)
{
    struct tw_history_file *file = history->file;
    const struct history_progress before = file->progress;
    uint64_t until = atomic_load_explicit(&history->durable, memory_order_acquire);
    struct tw_error error = {0};
    bool is_safe = tw_mono_ns() - history->safe_mono_ns > SAFE_NS;
    history->batch_until_mono_ns = tw_mono_ns() + BATCH_NS_MAX;
    tw_status status = history_begin(file, is_safe, &error);
    if (status == TW_OK)
        status = tw_journal_follow_read(history->follow, until, on_record, history, &error);
    if (status == TW_OK || status == TW_ENDED)
        status = history_commit(file, &error);
    if (status != TW_OK) {
        batch_undo(history, &before, status, error.text);
        return;
    }
    progress_publish(history, is_safe);
    recovered(history);
}

static bool is_behind(struct tw_history *history)
{
    return atomic_load_explicit(&history->durable, memory_order_acquire) > atomic_load(&history->taken);
}

/* What has been written since is put on the disk; and what is too old goes, a little at a time. True: more
 * of it waits. */
static bool tidy(struct tw_history *history)
{
    struct tw_error error = {0};
    int64_t now_ns = tw_mono_ns();
    bool has_more = false;
    if (atomic_load(&history->safe) < history->file->progress.taken && now_ns - history->safe_mono_ns > SAFE_NS)
        batch_take(history); /* an empty one */
    if (history->file == NULL || now_ns < history->old_mono_ns)
        return false;
    int64_t before_ns = tw_wall_ns() - history->options.keep_ns;
    int64_t audit_before_ns = history->options.audit_keep_ns == 0 ? INT64_MIN : tw_wall_ns() - history->options.audit_keep_ns;
    bool has_more_audit = false;
    tw_status status = history_delete_old(history->file, before_ns, history->options.open_states, &has_more, &error);
    if (status == TW_OK)
        status = history_delete_old_audit(history->file, audit_before_ns, &has_more_audit, &error);
    has_more = has_more || has_more_audit;
    if (status != TW_OK) {
        fail(history, error.text);
        file_drop(history);
        return false;
    }
    progress_publish(history, false);
    if (!has_more)
        history->old_mono_ns = now_ns + OLD_NS;
    return has_more;
}

/* ---- Questions ---- */

void tw_history_ask(struct tw_history *history, struct tw_history_question *question)
{
    question->next = NULL;
    pthread_mutex_lock(&history->mutex);
    bool is_stopped = history->is_stopped;
    if (!is_stopped) {
        *history->asked_end = question;
        history->asked_end = &question->next;
        pthread_cond_signal(&history->changed);
    }
    pthread_mutex_unlock(&history->mutex);
    if (is_stopped)
        question->run(question, NULL);
}

static void questions_take(struct tw_history *history)
{
    struct tw_history_question **end = &history->questions;
    while (*end != NULL)
        end = &(*end)->next;
    pthread_mutex_lock(&history->mutex);
    *end = history->asked_oldest;
    history->asked_oldest = NULL;
    history->asked_end = &history->asked_oldest;
    pthread_mutex_unlock(&history->mutex);
}

static void questions_run(struct tw_history *history, bool is_last_chance)
{
    questions_take(history);
    for (struct tw_history_question **at = &history->questions; *at != NULL;) {
        struct tw_history_question *question = *at;
        struct tw_history_file *file = history->file;
        bool is_ready = file != NULL && file->progress.taken >= question->sequence;
        if (!is_ready && !is_last_chance && tw_mono_ns() < question->deadline_mono_ns) {
            at = &question->next;
            continue;
        }
        *at = question->next;
        question->run(question, is_ready ? file : NULL);
        if (is_ready && file->is_damaged) {
            struct tw_error error = {0};
            if (file_make(history, "it is damaged", &error) != TW_OK || log_follow(history, &error) != TW_OK) {
                fail(history, error.text);
                file_drop(history);
            } else {
                progress_publish(history, false);
            }
        }
    }
}

/* ---- The thread ---- */

void tw_history_news(struct tw_history *history, uint64_t durable)
{
    atomic_store_explicit(&history->durable, durable, memory_order_seq_cst);
    if (!atomic_exchange_explicit(&history->is_idle, false, memory_order_seq_cst))
        return;
    pthread_mutex_lock(&history->mutex);
    pthread_cond_signal(&history->changed);
    pthread_mutex_unlock(&history->mutex);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When there is something to do at the latest, besides news. gather_ns: when what is behind is taken up. */
static int64_t work_due(struct tw_history *history, int64_t *gather_ns)
{
    int64_t due_ns = INT64_MAX;
    for (const struct tw_history_question *question = history->questions; question != NULL; question = question->next)
        due_ns = smaller(due_ns, question->deadline_mono_ns);
    if (history->file == NULL)
        return smaller(due_ns, history->retry_mono_ns);
    if (history->has_more)
        return 0;
    if (is_behind(history)) {
        if (*gather_ns == 0)
            *gather_ns = history->questions != NULL ? 1 : tw_mono_ns() + GATHER_NS;
        return smaller(due_ns, *gather_ns);
    }
    if (atomic_load(&history->safe) < history->file->progress.taken)
        due_ns = smaller(due_ns, history->safe_mono_ns + SAFE_NS);
    return smaller(due_ns, history->old_mono_ns);
}

/* Until there is something to do. False: it is to stop. */
static bool work_await(struct tw_history *history)
{
    int64_t gather_ns = 0;
    pthread_mutex_lock(&history->mutex);
    while (!history->is_stopping && history->asked_oldest == NULL) {
        /* Before it is looked whether there is news, so that none is missed. While it gathers, none wakes it. */
        atomic_store_explicit(&history->is_idle, gather_ns == 0, memory_order_seq_cst);
        int64_t due_ns = work_due(history, &gather_ns);
        if (tw_mono_ns() >= due_ns)
            break;
        const struct timespec due = {due_ns / TW_NS_PER_S, due_ns % TW_NS_PER_S};
        (void)pthread_cond_clockwait(&history->changed, &history->mutex, CLOCK_MONOTONIC, &due);
    }
    atomic_store_explicit(&history->is_idle, false, memory_order_seq_cst);
    bool is_stopping = history->is_stopping;
    pthread_mutex_unlock(&history->mutex);
    return !is_stopping;
}

static void turn(struct tw_history *history)
{
    struct tw_error error = {0};
    history->has_more = false;
    if (history->file == NULL && tw_mono_ns() >= history->retry_mono_ns && file_open(history, &error) != TW_OK)
        fail(history, error.text);
    if (history->file != NULL && is_behind(history))
        batch_take(history);
    history->has_more = history->file != NULL && is_behind(history);
    questions_run(history, false);
}

static void *history_main(void *arg)
{
    struct tw_history *history = arg;
    prctl(PR_SET_NAME, "history");
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10); /* orders, and the journal, go first */
    while (work_await(history)) {
        turn(history);
        if (history->file != NULL && !history->has_more)
            history->has_more = tidy(history);
    }
    int64_t until_ns = tw_mono_ns() + STOP_NS_MAX;
    history->retry_mono_ns = 0;
    do
        turn(history);
    while (history->has_more && tw_mono_ns() < until_ns);
    pthread_mutex_lock(&history->mutex);
    history->is_stopped = true;
    pthread_mutex_unlock(&history->mutex);
    questions_run(history, true);
    return NULL;
}

/* ---- Start and stop ---- */

static void history_free(struct tw_history *history)
{
    file_drop(history);
    pthread_mutex_destroy(&history->mutex);
    pthread_cond_destroy(&history->changed);
    free(history->path);
    free(history->log_dir);
    free(history->log_id);
    free(history);
}

static void seed(struct tw_history *history)
{
    struct tw_history_file *file = history->file;
    struct tw_error error = {0};
    const struct history_progress before = file->progress;
    tw_status status = history_begin(file, true, &error);
    if (status == TW_OK)
        status = history->options.seed(history->options.context, file, &error);
    if (status == TW_OK) {
        file->progress.is_partial = false;
        status = history_commit(file, &error);
    }
    if (status != TW_OK)
        batch_undo(history, &before, status, error.text);
}

tw_status tw_history_start(const struct tw_history_options *options, struct tw_history **ret_history,
                           struct tw_error *error)
{
    struct tw_history *history = calloc(1, sizeof *history);
    struct tw_error why = {0};
    if (history == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the history");
    history->options = *options;
    history->asked_end = &history->asked_oldest;
    pthread_mutex_init(&history->mutex, NULL);
    pthread_cond_init(&history->changed, NULL);
    history->path = strdup(options->path);
    history->log_dir = strdup(options->log_dir);
    history->log_id = strdup(options->log_id);
    if (history->path == NULL || history->log_dir == NULL || history->log_id == NULL) {
        history_free(history);
        return tw_error_set(error, TW_NO_MEMORY, "no memory for the history");
    }
    history->options.path = history->path;
    history->options.log_dir = history->log_dir;
    history->options.log_id = history->log_id;
    if (file_open(history, &why) != TW_OK)
        fail(history, why.text);
    else if (history->file->progress.is_partial && options->seed != NULL)
        seed(history);
    int failed = pthread_create(&history->thread, NULL, history_main, history);
    if (failed != 0) {
        history_free(history);
        return tw_error_set(error, TW_NO_MEMORY, "the history thread cannot be started: %s", strerror(failed));
    }
    *ret_history = history;
    return TW_OK;
}

void tw_history_stop(struct tw_history *history)
{
    if (history == NULL)
        return;
    pthread_mutex_lock(&history->mutex);
    history->is_stopping = true;
    pthread_cond_signal(&history->changed);
    pthread_mutex_unlock(&history->mutex);
    pthread_join(history->thread, NULL);
    history_free(history);
}

uint64_t tw_history_taken(const struct tw_history *history)
{
    int64_t since_ns = atomic_load(&history->failing_since_mono_ns);
    if (since_ns != 0 && tw_mono_ns() - since_ns > FAILING_NS_MAX)
        return UINT64_MAX;
    return atomic_load(&history->safe);
}

void tw_history_status_get(const struct tw_history *history, struct tw_history_status *ret)
{
    uint64_t durable = atomic_load(&history->durable), taken = atomic_load(&history->taken);
    *ret = (struct tw_history_status){
        .taken = taken,
        .behind = durable > taken ? durable - taken : 0,
        .forgotten_change_id = atomic_load(&history->forgotten_change_id),
        .is_failing = atomic_load(&history->failing_since_mono_ns) != 0,
    };
}
