/* records.h - the journal's records for people, as `tradewake journal dump` prints them. */
#ifndef TW_ENGINE_RECORDS_H
#define TW_ENGINE_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* "EVENT"; static. NULL: of another version. */
const char *tw_engine_record_name(uint16_t type);

/* A tw_journal_print_fn. Followers, positions, events and shares ("legs") go by their numbers. */
bool tw_engine_record_print(FILE *out, uint16_t type, const uint8_t *bytes, size_t size, bool is_json);

#endif
