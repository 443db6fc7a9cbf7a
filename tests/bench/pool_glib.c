/* pool_glib.c - GThreadPool with exclusive threads. Built where GLib is. */
#include "pool.h"

#include <glib.h>
#include <stdio.h>

static GThreadPool *pool;
static struct burst *glib_burst;

static void glib_copy(gpointer number, gpointer context)
{
    (void)context;
    copy_run(glib_burst, GPOINTER_TO_UINT(number) - 1);
}

static bool glib_open(const struct pool_settings *settings, struct burst *burst)
{
    GError *error = NULL;
    glib_burst = burst;
    pool = g_thread_pool_new(glib_copy, NULL, (gint)settings->threads, TRUE, &error);
    atomic_store(&burst->threads, settings->threads);
    if (error != NULL)
        fprintf(stderr, "%s\n", error->message);
    return error == NULL;
}

static void glib_submit(struct burst *burst)
{
    for (uint32_t copy = 0; copy < burst_copies(burst); copy++) {
        if (copy % burst->followers == 0)
            event_begin(burst, copy / burst->followers);
        g_thread_pool_push(pool, GUINT_TO_POINTER(copy + 1), NULL);
    }
}

static void glib_close(void)
{
    g_thread_pool_free(pool, FALSE, TRUE);
}

const struct pool pool_glib = {
    .name = "glib",
    .about = "GThreadPool, exclusive threads",
    .open = glib_open,
    .submit = glib_submit,
    .close = glib_close,
};
