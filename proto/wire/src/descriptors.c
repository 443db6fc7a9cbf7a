#include <tradewake/base/log.h>
#include <tradewake/wire/descriptors.h>

#include <grpc/health/v1/health.pb-c.h>
#include <grpc/reflection/v1/reflection.pb-c.h>
#include <grpc/reflection/v1alpha/reflection.pb-c.h>
#include <tradewake/adapter/v1/broker_adapter.pb-c.h>
#include <tradewake/paper/v1/paper.pb-c.h>
#include <tradewake/v1/copies.pb-c.h>
#include <tradewake/v1/events.pb-c.h>
#include <tradewake/v1/followers.pb-c.h>
#include <tradewake/v1/metrics.pb-c.h>

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every service that is declared somewhere in proto/; a new one is added here. */
static const ProtobufCServiceDescriptor *const services[] = {
    &grpc__health__v1__health__descriptor,
    &grpc__reflection__v1__server_reflection__descriptor,
    &grpc__reflection__v1alpha__server_reflection__descriptor,
    &tradewake__adapter__v1__broker_adapter_service__descriptor,
    &tradewake__paper__v1__paper_service__descriptor,
    &tradewake__v1__copy_service__descriptor,
    &tradewake__v1__event_service__descriptor,
    &tradewake__v1__follower_service__descriptor,
    &tradewake__v1__metrics_service__descriptor,
};

enum { SERVICES = sizeof services / sizeof services[0], FILES_MAX = 64, METHODS_MAX = 128 };
enum { PATH_BYTES = 128 };

/* The .fds file, as it is. */
__asm__(".pushsection .rodata\n"
        ".balign 16\n"
        ".global wire_descriptor_set\n"
        "wire_descriptor_set:\n"
        ".incbin \"" TW_DESCRIPTOR_SET "\"\n"
        ".global wire_descriptor_set_end\n"
        "wire_descriptor_set_end:\n"
        ".byte 0\n"
        ".popsection\n");
extern const uint8_t wire_descriptor_set[], wire_descriptor_set_end[];

/* Filled once, read-only afterwards: any thread. */
static struct {
    struct tw_descriptor_file files[FILES_MAX];
    uint32_t n_files;
    struct tw_method_type methods[METHODS_MAX];
    char paths[METHODS_MAX][PATH_BYTES];
    uint32_t n_methods;
} set;
static pthread_once_t set_once = PTHREAD_ONCE_INIT;

/* Reads one varint and moves *at behind it. The set comes from protoc, so it is well formed. */
static uint64_t varint(const uint8_t **at)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0)
            return value;
    }
}

static const ProtobufCServiceDescriptor *service_find(const char *package, const char *name)
{
    char full[PATH_BYTES];
    snprintf(full, sizeof full, "%s.%s", package, name);
    for (uint32_t i = 0; i < SERVICES; i++)
        if (strcmp(services[i]->name, full) == 0)
            return services[i];
    return NULL;
}

static void method_add(const ProtobufCServiceDescriptor *service, unsigned index,
                       const Google__Protobuf__MethodDescriptorProto *parsed)
{
    const ProtobufCMethodDescriptor *method = &service->methods[index];
    assert(set.n_methods < METHODS_MAX);
    assert(strcmp(method->name, parsed->name) == 0);
    assert(strcmp(method->input->name, parsed->input_type + 1) == 0); /* ".pkg.Type" */
    assert(strcmp(method->output->name, parsed->output_type + 1) == 0);

    struct tw_method_type *type = &set.methods[set.n_methods];
    *type = (struct tw_method_type){
        .service = service->name,
        .name = method->name,
        .input = method->input,
        .output = method->output,
        .client_streams = parsed->has_client_streaming && parsed->client_streaming,
        .server_streams = parsed->has_server_streaming && parsed->server_streaming,
    };
    snprintf(set.paths[set.n_methods], PATH_BYTES, "/%s/%s", service->name, method->name);
    set.n_methods++;
}

static void services_add(const Google__Protobuf__FileDescriptorProto *file)
{
    for (size_t i = 0; i < file->n_service; i++) {
        const Google__Protobuf__ServiceDescriptorProto *parsed = file->service[i];
        const ProtobufCServiceDescriptor *service = service_find(file->package, parsed->name);
        if (service == NULL || service->n_methods != parsed->n_method) {
            /* Found by the first test that runs after a service was added to proto/. */
            tw_log(TW_LOG_ERROR, "wire.service_missing", "service=%s.%s where=descriptors.c",
                   file->package, parsed->name);
            abort();
        }
        for (unsigned k = 0; k < service->n_methods; k++)
            method_add(service, k, parsed->method[k]);
    }
}

static void set_load(void)
{
    for (const uint8_t *at = wire_descriptor_set; at < wire_descriptor_set_end;) {
        uint64_t tag = varint(&at);
        assert(tag == (1u << 3 | 2u)); /* FileDescriptorSet.file */
        (void)tag;
        size_t size = varint(&at);

        assert(set.n_files < FILES_MAX);
        struct tw_descriptor_file *file = &set.files[set.n_files++];
        file->bytes = at;
        file->size_bytes = size;
        file->parsed = google__protobuf__file_descriptor_proto__unpack(NULL, size, at);
        assert(file->parsed != NULL);
        file->name = file->parsed->name;
        services_add(file->parsed);
        at += size;
    }
}

uint32_t tw_descriptor_files_count(void)
{
    pthread_once(&set_once, set_load);
    return set.n_files;
}

const struct tw_descriptor_file *tw_descriptor_file_at(uint32_t index)
{
    pthread_once(&set_once, set_load);
    assert(index < set.n_files);
    return &set.files[index];
}

const struct tw_descriptor_file *tw_descriptor_file_find(const char *name)
{
    pthread_once(&set_once, set_load);
    for (uint32_t i = 0; i < set.n_files; i++)
        if (strcmp(set.files[i].name, name) == 0)
            return &set.files[i];
    return NULL;
}

const struct tw_method_type *tw_method_type_find(const char *path)
{
    pthread_once(&set_once, set_load);
    for (uint32_t i = 0; i < set.n_methods; i++)
        if (strcmp(set.paths[i], path) == 0)
            return &set.methods[i];
    return NULL;
}

uint32_t tw_method_types_count(void)
{
    pthread_once(&set_once, set_load);
    return set.n_methods;
}

const struct tw_method_type *tw_method_type_at(uint32_t index)
{
    pthread_once(&set_once, set_load);
    assert(index < set.n_methods);
    return &set.methods[index];
}
