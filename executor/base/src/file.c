#include <tradewake/base/file.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Not through stdio: its buffer would keep a copy of a key. */
tw_status tw_file_read(const char *path, size_t bytes_max, char **ret_bytes, size_t *ret_size, struct tw_error *error)
{
    tw_status status = TW_OK;
    size_t size = 0;
    ssize_t n = 0;
    char *bytes = NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return tw_error_set(error, TW_IO, "%s cannot be read: %s", path, strerror(errno));
    bytes = malloc(bytes_max + 2);
    while (bytes != NULL && size <= bytes_max && (n = read(file, bytes + size, bytes_max + 1 - size)) > 0)
        size += (size_t)n;
    if (bytes == NULL)
        status = tw_error_set(error, TW_NO_MEMORY, "no memory to read %s", path);
    else if (n < 0)
        status = tw_error_set(error, TW_IO, "%s cannot be read: %s", path, strerror(errno));
    else if (size > bytes_max)
        status = tw_error_set(error, TW_INVALID, "%s has more than %zu bytes", path, bytes_max);
    close(file);
    if (status != TW_OK) {
        free(bytes);
        return status;
    }
    bytes[size] = '\0';
    *ret_bytes = bytes;
    *ret_size = size;
    return TW_OK;
}
