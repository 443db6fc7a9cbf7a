/* explain: what an event would lead to at each follower, rule by rule; nothing is sent. */
#include "command.h"

#include <tradewake/v1/events.pb-c.h>

#include <stdio.h>
#include <stdlib.h>

static const struct column step_columns[] = {
    {"RULE", "rule", TW_FIELD_PLAIN},
    {"INPUT", "input", TW_FIELD_PLAIN},
    {"OUTPUT", "output", TW_FIELD_PLAIN},
    {"NOTE", "note", TW_FIELD_PLAIN},
    {0},
};

/* "F1: OPEN QUEUED, BUY 0.03 EURUSD", and the steps below. */
static bool print_explanation(const Tradewake__V1__Explanation *explanation)
{
    static const char *const paths[] = {"action", "state", "reason", "side", "volume", "symbol"};
    char texts[6][PRINTED_BYTES];
    const ProtobufCMessage *outcome = &explanation->outcome->base;
    for (size_t i = 0; i < COUNT(paths); i++)
        tw_fields_text(outcome, paths[i], TW_FIELD_PLAIN, texts[i], sizeof texts[i]);
    bool has_reason = explanation->outcome->reason != TRADEWAKE__V1__REASON__REASON_UNSPECIFIED;
    bool has_volume = explanation->outcome->volume[0] != '\0';
    printf("%s%s%s: %s %s%s%s", style_on(stdout, STYLE_BOLD), explanation->follower_id,
           style_off(stdout), texts[0], texts[1], has_reason ? " " : "",
           has_reason ? texts[2] : "");
    if (has_volume)
        printf(", %s %s %s", texts[3], texts[4], texts[5]);
    printf("\n\n");

    struct table *table = table_new(step_columns);
    if (table == NULL)
        return false;
    for (size_t i = 0; i < explanation->n_steps; i++)
        table_add(table, &explanation->steps[i]->base);
    table_print(table, stdout);
    table_free(table);
    printf("\n");
    return true;
}

static int print_page(struct session *session, const Tradewake__V1__ExplainEventResponse *page)
{
    for (size_t i = 0; i < page->n_explanations; i++) {
        if (session->is_json)
            tw_json_message(&session->json, &page->explanations[i]->base);
        else if (!print_explanation(page->explanations[i]))
            return session_error(session, "no memory for a table");
    }
    return TW_EXIT_DONE;
}

/* Every page, in the order of the server. */
static int print_pages(struct session *session, ProtobufCMessage *request)
{
    Tradewake__V1__ExplainEventRequest *explain =
        (Tradewake__V1__ExplainEventRequest *)(void *)request;
    for (;;) {
        ProtobufCMessage *response;
        struct tw_error error;
        int code =
            session_call(session, session->command->method, request, &session->arena, &response);
        if (code != TW_EXIT_DONE)
            return code;
        const Tradewake__V1__ExplainEventResponse *page = (const void *)response;
        code = print_page(session, page);
        if (code != TW_EXIT_DONE || page->next_page_token[0] == '\0')
            return code;
        if (tw_fields_set(&explain->base, "page_token", page->next_page_token, &session->arena,
                          &error) != TW_OK)
            return session_error(session, "%s", error.text);
    }
}

int run_explain(struct session *session)
{
    ProtobufCMessage *request;
    int code = session_request(session, session->command->method, &request);
    if (code == TW_EXIT_DONE)
        code = request_defaults(session, request, "event.event_id", "event.observed_at");
    if (code != TW_EXIT_DONE || !session->is_json)
        return code == TW_EXIT_DONE ? print_pages(session, request) : code;

    /* Nothing goes out before every page is there: half a document helps nobody. */
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (memory == NULL)
        return session_error(session, "no memory");
    struct tw_json to_stdout = session->json;
    session->json = (struct tw_json){.out = memory, .is_pretty = to_stdout.is_pretty};
    tw_json_object(&session->json);
    tw_json_key(&session->json, "explanations");
    tw_json_array(&session->json);
    code = print_pages(session, request);
    tw_json_end(&session->json, true);
    tw_json_end(&session->json, false);
    session->json = to_stdout;
    fclose(memory);
    if (code == TW_EXIT_DONE)
        fwrite(text, 1, size, stdout);
    free(text);
    return code;
}
