/* rights.c - role x method x object, in one table. What is not in it, nobody may. */
#include "access.h"

#include <stdlib.h>
#include <string.h>

#define EVENTS    "/tradewake.v1.EventService/"
#define COPIES    "/tradewake.v1.CopyService/"
#define FOLLOWERS "/tradewake.v1.FollowerService/"
#define METRICS   "/tradewake.v1.MetricsService/"
#define PAPER     "/tradewake.paper.v1.PaperService/"

enum object {
    ANY,    /* it is about nothing that belongs to anybody */
    MASTER, /* names a master, which must be the caller's */
    EITHER, /* names a master or a follower; one of them must be the caller's */
    FOUND,  /* by another id: the handler asks tw_access_sees() */
    ALL,    /* shows everybody's: for who may see all */
};

enum { P = ROLE_PUBLISHER, O = ROLE_OPERATOR, V = ROLE_VIEWER, A = ROLE_ADMIN };

/* Operators and admins see all, so objects bind publishers and viewers. Sorted by path. */
static const struct right {
    const char *path;
    unsigned roles;
    enum object object;
} rights[] = {
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", P | O | V | A, ANY},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", P | O | V | A, ANY},
    {PAPER "ActByHand", A, ANY},
    {PAPER "Configure", A, ANY},
    {PAPER "GetBook", A, ANY},
    {COPIES "CompareFollower", O | V | A, EITHER},
    {COPIES "GetCopy", P | O | V | A, FOUND},
    {COPIES "ListCopies", P | O | V | A, EITHER},
    {COPIES "ResolveCopy", O | A, ANY},
    {COPIES "WatchCopies", P | O | V | A, EITHER},
    {EVENTS "ExplainEvent", P | O | A, MASTER},
    {EVENTS "GetEvent", P | O | V | A, MASTER},
    {EVENTS "GetMaster", P | O | V | A, MASTER},
    {EVENTS "ListMasters", P | O | V | A, ALL},
    {EVENTS "StreamEvents", P | A, MASTER},
    {EVENTS "SubmitEvent", P | A, MASTER},
    {EVENTS "SyncMaster", P | A, MASTER},
    {FOLLOWERS "CreateFollower", O | A, ANY},
    {FOLLOWERS "CreateSubscription", O | A, ANY},
    {FOLLOWERS "DeleteFollower", O | A, ANY},
    {FOLLOWERS "DeleteSubscription", O | A, ANY},
    {FOLLOWERS "GetFollower", O | V | A, EITHER},
    {FOLLOWERS "GetSubscription", P | O | V | A, FOUND},
    {FOLLOWERS "Halt", O | A, ANY},
    {FOLLOWERS "ListFollowers", O | V | A, EITHER},
    {FOLLOWERS "ListHalts", O | V | A, ALL},
    {FOLLOWERS "ListSubscriptions", P | O | V | A, EITHER},
    {FOLLOWERS "RearmGate", O | A, ANY},
    {FOLLOWERS "ResetStopOut", O | A, ANY},
    {FOLLOWERS "Resume", O | A, ANY},
    {FOLLOWERS "UpdateFollower", O | A, ANY},
    {FOLLOWERS "UpdateSubscription", O | A, ANY},
    {METRICS "GetExecutorStatus", P | O | V | A, ANY},
    {METRICS "GetOwnTimeSummary", P | O | V | A, EITHER},
    {METRICS "WatchOwnTime", P | O | V | A, EITHER},
    {METRICS "WatchOwnTimeSummary", P | O | V | A, EITHER},
};

static int by_path(const void *path, const void *right)
{
    return strcmp(path, ((const struct right *)right)->path);
}

static const struct right *right_find(const char *path)
{
    return bsearch(path, rights, sizeof rights / sizeof rights[0], sizeof rights[0], by_path);
}

bool tw_access_may_call(const struct tw_identity *identity, const char *path)
{
    const struct right *right = right_find(path);
    return right != NULL && (identity->roles & right->roles) != 0;
}

bool tw_access_sees(const struct tw_identity *identity, const char *master_id, const char *follower_id)
{
    return (identity->roles & (O | A)) != 0 || id_set_has(&identity->masters, master_id) ||
           id_set_has(&identity->followers, follower_id);
}

bool tw_access_may(const struct tw_identity *identity, const char *path, const struct tw_access_objects *objects)
{
    const struct right *right = right_find(path);
    if (right == NULL || (identity->roles & right->roles) == 0)
        return false;
    bool is_unbound = (identity->roles & right->roles & (O | A)) != 0;
    switch (right->object) {
    case ANY:
    case FOUND:
        return true;
    case MASTER:
        return is_unbound || id_set_has(&identity->masters, objects->master_id);
    case EITHER:
        return is_unbound || tw_access_sees(identity, objects->master_id, objects->follower_id);
    case ALL:
        return is_unbound || identity->masters.is_all;
    }
    return false;
}
