#include "notify.h"

#include <tradewake/base/log.h>

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* False: nobody listens. An address with "@" is one without a file. */
static int address_of(struct sockaddr_un *ret, socklen_t *ret_size)
{
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path != NULL ? strlen(path) : 0;
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (length < 2 || length >= sizeof ret->sun_path || (path[0] != '/' && path[0] != '@'))
        return 0;
    memcpy(ret->sun_path, path, length);
    if (path[0] == '@')
        ret->sun_path[0] = '\0';
    *ret_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    return 1;
}

void tw_notify(const char *state)
{
    struct sockaddr_un address;
    socklen_t size = 0;
    if (!address_of(&address, &size))
        return;
    int file = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0 || sendto(file, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address, size) < 0)
        tw_log(TW_LOG_WARN, "notify.failed", "state=%s why=\"%s\"", state, strerror(errno));
    if (file >= 0)
        close(file);
}
