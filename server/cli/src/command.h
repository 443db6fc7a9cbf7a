/* command.h - what a command is: one row of a table.
 *
 * A row says what a command takes, what it calls and what it prints. Most need no code of their
 * own: a flag names the field of the request that it sets, an operand too, and run_call() or
 * run_list() does the rest. Help is written from the same row.
 *
 * Thread: main for everything here, unless it says otherwise. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <tradewake/cli/cli.h>
#include <tradewake/cli/fields.h>
#include <tradewake/cli/json.h>

#include <tradewake/base/arena.h>
#include <tradewake/wire/client.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COUNT(array)  (sizeof(array) / sizeof(array)[0])
#define PRINTED_BYTES 1024u /* one cell of a table */

struct command_option {
    const char *flag; /* "--volume"; "-o" has its long form in `also` */
    const char *also;
    const char *value; /* "VOLUME", as in help; NULL = a switch */
    struct tw_value_rule rule;
    const char *default_text; /* NULL = none */
    const char *variable;     /* environment; NULL = none */
    bool is_required;
    bool is_repeated;
    const char *field; /* of the request: set from the value; NULL = the command reads it */
    const char *pair;  /* FROM=TO into two fields of a repeated message: "from_symbol,to_symbol" */
    const char *help;
};

/* Options that many commands have. */
enum shared_options {
    TAKES_SERVER = 1,   /* --server, --timeout */
    TAKES_OUTPUT = 2,   /* -o */
    TAKES_STREAM = 4,   /* --count, --for */
    TAKES_SETTINGS = 8, /* a flag for each setting, and --config */
    TAKES_CALL = TAKES_SERVER | TAKES_OUTPUT,
};

struct column {
    const char *title;
    const char *path; /* in the message of the row */
    enum tw_field_format format;
};

struct session;

struct command {
    const char *name;     /* "followers create" */
    const char *operands; /* "FOLLOWER_ID", as in help; NULL = none */
    uint8_t n_operands_min, n_operands_max;
    unsigned shared;
    const char *summary;
    const struct command_option *options;
    size_t n_options;
    const char *notes;    /* after the options; NULL = none */
    const char *examples; /* lines */
    const char *json;     /* what -o json prints, in words; NULL: what `method` answers */
    int (*run)(struct session *session);

    /* For run_call() and run_list(). */
    const char *method; /* "/tradewake.v1.FollowerService/CreateFollower" */
    const char *operand_fields[2];
    const char *mask_root; /* an update: fields under it that were given go into update_mask */
    const struct column *columns; /* ended by a NULL title */
};

/* The table; static. */
const struct command *commands_table(size_t *ret_n);

/* ---- What the command line gave ---- */

enum { GIVEN_MAX = 128, OPERANDS_MAX = 8 };

struct given {
    const struct command_option *option;
    const char *text;
};

struct args {
    const struct command *command;
    struct given given[GIVEN_MAX];
    size_t n_given;
    struct tw_setting_flag settings[GIVEN_MAX];
    size_t n_settings;
    const char *operands[OPERANDS_MAX];
    size_t n_operands;
    const char *group; /* "submit": help was asked for all that begin so */
    bool wants_help;
};

/* Reads argv behind the program's name. False: it was told why, exit 2. ret->command is NULL when
 * no command was named. */
bool args_read(int argc, char **argv, struct args *ret);

/* The last value given, else the environment's, else the default; NULL = none of them. */
const char *args_text(const struct args *args, const char *flag);
/* The same as the number of its rule; 0 for none. It was checked when read. */
int64_t args_number(const struct args *args, const char *flag);
bool args_has(const struct args *args, const char *flag);

/* The options of a command with those it shares; up to OPTIONS_MAX. Returns how many. */
enum { OPTIONS_MAX = 48 };
size_t command_options(const struct command *command,
                       const struct command_option *ret[OPTIONS_MAX]);

/* A usage error on standard error, with the way to help. Returns TW_EXIT_USAGE. */
int usage_error(const struct command *command, const char *format, ...) TW_PRINTF(2, 3);

void help_overview(FILE *out, const char *version);
void help_group(FILE *out, const char *group);
void help_command(FILE *out, const struct command *command);
/* Of a command that takes -o: "{"copies": [tradewake.v1.Copy, ...]}", "one tradewake.v1.Follower". Returns text. */
const char *help_json(const struct command *command, char *text, size_t size);
/* The name of the list in an answer: "followers". */
const char *answer_list_name(const ProtobufCMessageDescriptor *type);

/* ---- While it runs ---- */

struct session {
    const struct tw_cli_host *host;
    const struct command *command;
    struct args args;
    char **environment;
    bool is_json;
    struct tw_json json;   /* to standard output */
    struct tw_arena arena; /* as long as the command */
    struct tw_wire_client *client;
    const char *server;
};

/* Makes the connection object; prints what is wrong with it. Returns an exit code. */
int session_connect(struct session *session);
int64_t session_deadline(const struct session *session); /* now + --timeout */

/* One unary call, answer in arena. Failures are printed. Returns an exit code. */
int session_call(struct session *session, const char *method, const ProtobufCMessage *request,
                 struct tw_arena *arena, ProtobufCMessage **ret_response);

/* The same, silent: for what may fail. */
tw_status session_try(struct session *session, const char *method, const ProtobufCMessage *request,
                      struct tw_arena *arena, ProtobufCMessage **ret_response,
                      struct tw_wire_answer *ret_answer);

/* Prints what a call ended with and returns the exit code for it. */
int session_failed(struct session *session, tw_status status, const struct tw_wire_answer *answer,
                   const struct tw_error *error);

/* An empty request of a method, and the flags and operands with fields set into it.
 * Returns an exit code; what is wrong was printed. */
int session_request(struct session *session, const char *method, ProtobufCMessage **ret_request);

/* Something of our own that went wrong. Returns TW_EXIT_FAILED. */
int session_error(struct session *session, const char *format, ...) TW_PRINTF(2, 3);

/* A stream read until --count things, --for so long, its end, or Ctrl-C.
 * on_message: prints what it likes, returns how many things it was; *left: at most so many. */
typedef uint64_t stream_print(struct session *session, void *context,
                              const ProtobufCMessage *message, uint64_t left);
int session_stream(struct session *session, const char *method, const ProtobufCMessage *request,
                   stream_print *on_message, void *context);

/* Runs that many commands share. */
int run_call(struct session *session);
int run_list(struct session *session);

/* ---- Printing ---- */

struct table;

/* Rows are kept until printed; wide enough for what is in them. */
struct table *table_new(const struct column *columns);
void table_add(struct table *table, const ProtobufCMessage *message);
void table_add_texts(struct table *table, const char *const *cells); /* as many as columns */
/* Prints what was added since the last time; the header once. */
void table_print(struct table *table, FILE *out);
void table_free(struct table *table);

/* "name  value" lines of a message, or its JSON. */
void print_message(struct session *session, const ProtobufCMessage *message);

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_GOOD, STYLE_BAD, STYLE_DIM };
/* The escape sequences where out is a terminal (and NO_COLOR is not set), "" elsewhere. */
const char *style_on(FILE *out, enum style style);
const char *style_off(FILE *out);

/* True once Ctrl-C was pressed; the first one only asks to stop. Thread: any. */
void interrupt_watch(void);
bool interrupted(void);

/* ---- Commands with code of their own ---- */
int run_serve(struct session *session);
int run_dev(struct session *session);
int run_check(struct session *session);
int run_config_show(struct session *session);
int run_config_reference(struct session *session);
int run_token_key(struct session *session);
int run_token_issue(struct session *session);
int run_fix_log(struct session *session);
int run_journal(struct session *session);
int run_adapter_check(struct session *session);
int run_plugin_host(struct session *session);
int run_audit(struct session *session);
int run_submit(struct session *session);
int run_explain(struct session *session);
int run_sync(struct session *session);

/* Of an event, or a snapshot: an id that was not given, made up, and "now" for a time that was not. Returns an
 * exit code; what is wrong was printed. */
int request_defaults(struct session *session, ProtobufCMessage *request, const char *id_field,
                     const char *time_field);
int run_replay(struct session *session);
int run_watch(struct session *session);
int run_copies(struct session *session);
int run_followers_mode(struct session *session);
int run_completion(struct session *session);
int run_doctor(struct session *session);
int run_top(struct session *session);
int run_health(struct session *session);
int run_version(struct session *session);

#endif
