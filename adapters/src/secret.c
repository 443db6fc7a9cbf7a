#include <tradewake/adapters/secret.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Names ---- */

static bool is_name(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    return n > 0 && n <= TW_SECRET_NAME_MAX && name[n] == '\0' && name[0] != '.';
}

const char *tw_secret_name(const char *value)
{
    const size_t prefix = sizeof TW_SECRET_PREFIX - 1;
    if (strncmp(value, TW_SECRET_PREFIX, prefix) != 0 || !is_name(value + prefix))
        return NULL;
    return value + prefix;
}

/* ---- In the open ---- */

/* Anywhere in a key, whatever stands between the words. */
static const char *const telling_parts[] = {"password", "passwd", "passphrase", "secret",    "token",    "credential",
                                            "apikey",   "privkey", "privatekey", "accesskey", "clientkey"};
/* A whole word of it. */
static const char *const telling_words[] = {"pass", "pwd", "pw", "pin", "key", "auth", "otp", "cookie", "signature"};

static bool tells(const char *key)
{
    char letters[128] = "";
    size_t n = 0;
    for (const char *at = key; *at != '\0' && n < sizeof letters - 1; at++)
        if (isalnum((unsigned char)*at))
            letters[n++] = (char)tolower((unsigned char)*at);
    letters[n] = '\0';
    for (size_t i = 0; i < sizeof telling_parts / sizeof telling_parts[0]; i++)
        if (strstr(letters, telling_parts[i]) != NULL)
            return true;
    for (const char *at = key; *at != '\0';) {
        size_t length = strcspn(at, "_-. ");
        for (size_t i = 0; i < sizeof telling_words / sizeof telling_words[0]; i++)
            if (strlen(telling_words[i]) == length && strncasecmp(at, telling_words[i], length) == 0)
                return true;
        at += length + (at[length] != '\0');
    }
    return false;
}

/* A private key, a token, a header of one. */
static bool shows(const char *value)
{
    static const char *const beginnings[] = {"-----BEGIN", "eyJ", "Bearer ", "Basic "};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (strncmp(value, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

const char *tw_secret_in_the_open(const char *key, const char *value)
{
    if (tw_secret_name(value) != NULL)
        return NULL;
    if (strncmp(value, TW_SECRET_PREFIX, sizeof TW_SECRET_PREFIX - 1) == 0)
        return "names a secret with more than letters, digits, \"-\", \"_\" and \".\", or more than 64 of them";
    if (tells(key) || shows(value))
        return "looks like a secret, which is not kept here: put it into a file of its own in secrets.directory "
               "(systemd credentials, Docker secrets), and write secret:NAME with the name of that file";
    return NULL;
}

/* ---- Read, and gone ---- */

static tw_status file_size(int file, const char *path, size_t *ret_size, struct tw_error *error)
{
    struct stat status;
    if (fstat(file, &status) != 0)
        return tw_error_set(error, TW_IO, "%s cannot be looked at: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode) || status.st_size <= 0 || (size_t)status.st_size > TW_SECRET_BYTES_MAX)
        return tw_error_set(error, TW_INVALID, "%s is no file of 1 to %u bytes", path, TW_SECRET_BYTES_MAX);
    *ret_size = (size_t)status.st_size;
    return TW_OK;
}

/* Memory that is in no core file, and that the kernel need not write to the disk. */
static tw_status secret_map(size_t size, struct tw_secret *ret, struct tw_error *error)
{
    void *memory = mmap(NULL, size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for a secret");
    *ret = (struct tw_secret){.text = memory, .mapped = size + 1};
    if (madvise(memory, size + 1, MADV_DONTDUMP) != 0) {
        tw_secret_wipe(ret);
        return tw_error_set(error, TW_IO, "memory of a secret cannot be kept out of core files: %s", strerror(errno));
    }
    (void)mlock(memory, size + 1); /* where RLIMIT_MEMLOCK allows it */
    return TW_OK;
}

static tw_status secret_fill(int file, const char *path, size_t size, struct tw_secret *secret, struct tw_error *error)
{
    while (secret->size < size) {
        ssize_t n = read(file, secret->text + secret->size, size - secret->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tw_error_set(error, TW_IO, "%s cannot be read: %s", path, strerror(errno));
        if (n == 0)
            break;
        secret->size += (size_t)n;
    }
    while (secret->size > 0 && (secret->text[secret->size - 1] == '\n' || secret->text[secret->size - 1] == '\r'))
        secret->text[--secret->size] = '\0';
    if (secret->size == 0)
        return tw_error_set(error, TW_INVALID, "%s is empty", path);
    return TW_OK;
}

tw_status tw_secret_read(const char *directory, const char *name, struct tw_secret *ret, struct tw_error *error)
{
    char path[4096];
    struct tw_secret secret = {0};
    size_t size = 0;
    if (!is_name(name))
        return tw_error_set(error, TW_INVALID, "a secret's name has letters, digits, \"-\", \"_\" and \".\"");
    int length = snprintf(path, sizeof path, "%s/%s", directory, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return tw_error_set(error, TW_INVALID, "the path of secret %s is too long", name);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a link is allowed: Kubernetes makes them */
    if (file < 0)
        return tw_error_set(error, errno == ENOENT ? TW_NOT_FOUND : TW_IO, "secret %s: %s: %s", name, path, strerror(errno));
    tw_status status = file_size(file, path, &size, error);
    if (status == TW_OK)
        status = secret_map(size, &secret, error);
    if (status == TW_OK)
        status = secret_fill(file, path, size, &secret, error);
    close(file);
    if (status == TW_OK)
        *ret = secret;
    else
        tw_secret_wipe(&secret);
    return status;
}

void tw_secret_wipe(struct tw_secret *secret)
{
    if (secret->text == NULL)
        return;
    explicit_bzero(secret->text, secret->mapped);
    munmap(secret->text, secret->mapped);
    *secret = (struct tw_secret){0};
}
