/* descriptors.h - the descriptor set that is built into the program.
 *
 * protoc-c's tables know names and types but not which methods stream; the descriptor set does, and
 * reflection hands it out. Both are made from the same .proto files by the build; that they agree
 * is checked when the set is first used. It is read once and stays for the life of the program. */
#ifndef TW_WIRE_DESCRIPTORS_H
#define TW_WIRE_DESCRIPTORS_H

#include <google/protobuf/descriptor.pb-c.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One .proto file. */
struct tw_descriptor_file {
    const char *name;     /* "tradewake/v1/events.proto" */
    const uint8_t *bytes; /* the FileDescriptorProto as protoc wrote it */
    size_t size_bytes;
    const Google__Protobuf__FileDescriptorProto *parsed;
};

/* How one method speaks. */
struct tw_method_type {
    const char *service; /* "tradewake.v1.EventService" */
    const char *name;    /* "SubmitEvent" */
    const ProtobufCMessageDescriptor *input, *output;
    bool client_streams, server_streams;
};

/* The files, an import before what imports it. Thread: any. */
uint32_t tw_descriptor_files_count(void);
const struct tw_descriptor_file *tw_descriptor_file_at(uint32_t index);

/* NULL when there is no such file. Thread: any. */
const struct tw_descriptor_file *tw_descriptor_file_find(const char *name);

/* path: "/tradewake.v1.EventService/SubmitEvent"; NULL when there is no such method. Thread: any.
 */
const struct tw_method_type *tw_method_type_find(const char *path);

/* Every method of every service, by index. Thread: any. */
uint32_t tw_method_types_count(void);
const struct tw_method_type *tw_method_type_at(uint32_t index);

#endif
