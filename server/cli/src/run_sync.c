/* sync: a complete picture of what a master holds, from flags or a file. */
#include "command.h"

#include "json_read.h"

#include <tradewake/v1/events.pb-c.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 4 * 1024 * 1024 };

/* A whole file, from the heap. NULL: it was told why. */
static char *read_file(struct session *session, const char *path)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    char *text = file != NULL ? malloc(FILE_BYTES_MAX + 1) : NULL;
    size_t size = text != NULL ? fread(text, 1, FILE_BYTES_MAX, file) : 0;
    if (text == NULL || ferror(file) != 0) {
        session_error(session, "cannot read %s: %s", path, strerror(errno));
        free(text);
        text = NULL;
    } else if (memchr(text, '\0', size) != NULL || size == FILE_BYTES_MAX) {
        session_error(session, "%s is no text, or too long for a snapshot", path);
        free(text);
        text = NULL;
    } else {
        text[size] = '\0';
    }
    if (file != NULL && file != stdin)
        fclose(file);
    return text;
}

static int read_snapshot(struct session *session, ProtobufCMessage *request)
{
    const char *path = args_text(&session->args, "--file");
    if (path == NULL)
        return TW_EXIT_DONE;
    char *text = read_file(session, path);
    if (text == NULL)
        return TW_EXIT_USAGE;
    struct tw_error error;
    tw_status status = json_read(text, request, &session->arena, &error);
    free(text);
    if (status == TW_OK)
        return TW_EXIT_DONE;
    return usage_error(session->command, "%s:%s", path, error.text);
}

/* A file that is cut off is no JSON; one that says how many entries it has is held to it. */
static void count_entries(Tradewake__V1__SyncMasterRequest *request)
{
    if (request->position_count == 0)
        request->position_count = (uint32_t)request->n_positions;
    if (request->order_count == 0)
        request->order_count = (uint32_t)request->n_orders;
}

static const struct column copy_columns[] = {
    {"FOLLOWER", "follower_id", TW_FIELD_PLAIN},
    {"ACTION", "action", TW_FIELD_PLAIN},
    {"STATE", "state", TW_FIELD_PLAIN},
    {"REASON", "reason", TW_FIELD_PLAIN},
    {"POSITION", "master_position_id", TW_FIELD_PLAIN},
    {"SYMBOL", "symbol", TW_FIELD_PLAIN},
    {"SIDE", "side", TW_FIELD_PLAIN},
    {"VOLUME", "volume", TW_FIELD_PLAIN},
    {"COPY", "copy_id", TW_FIELD_PLAIN},
    {0},
};

static void print_synced(struct session *session, const Tradewake__V1__SyncMasterResponse *response,
                         bool is_dry)
{
    if (session->is_json) {
        tw_json_message(&session->json, &response->base);
        return;
    }
    if (response->n_copies > 0) {
        struct table *table = table_new(copy_columns);
        for (size_t i = 0; i < response->n_copies; i++)
            table_add(table, &response->copies[i]->base);
        table_print(table, stdout);
        table_free(table);
        putchar('\n');
    }
    printf("snapshot %s%s%s: closes %u, reductions %u, opens %u, cancels %u, unchanged %u\n",
           response->snapshot_id,
           response->duplicate ? " (duplicate: nothing was sent by this call)" : "",
           is_dry ? " (dry run: nothing was sent)" : "", response->closes, response->reductions,
           response->opens, response->cancels, response->unchanged);
    if (response->copies_omitted > 0)
        printf("%u more copies: tradewake copies --event %s\n", response->copies_omitted,
               response->snapshot_id);
}

int run_sync(struct session *session)
{
    ProtobufCMessage *message, *response;
    int code = session_request(session, session->command->method, &message);
    const char *master_id = args_text(&session->args, "--master");
    if (code == TW_EXIT_DONE)
        code = read_snapshot(session, message);
    if (code == TW_EXIT_DONE)
        code = request_defaults(session, message, "snapshot_id", "taken_at");
    if (code != TW_EXIT_DONE)
        return code;
    Tradewake__V1__SyncMasterRequest *request = (Tradewake__V1__SyncMasterRequest *)(void *)message;
    if (strcmp(request->master_id, master_id) != 0)
        return usage_error(session->command, "the file is of master \"%s\", --master says \"%s\"",
                           request->master_id, master_id);
    bool is_empty = request->n_positions == 0 && request->n_orders == 0;
    if (is_empty && !args_has(&session->args, "--empty"))
        return usage_error(session->command, "names neither a position nor an order, which closes "
                                             "everything: --empty says that it is meant");
    if (!is_empty && args_has(&session->args, "--empty"))
        return usage_error(session->command, "--empty does not go with positions or orders");
    count_entries(request);
    code = session_call(session, session->command->method, message, &session->arena, &response);
    if (code == TW_EXIT_DONE)
        print_synced(session, (const Tradewake__V1__SyncMasterResponse *)(void *)response,
                     request->dry_run);
    return code;
}
