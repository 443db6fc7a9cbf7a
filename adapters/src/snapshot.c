#include <tradewake/adapters/order.h>

#include <stdlib.h>

void tw_snapshot_clear(struct tw_snapshot *snapshot)
{
    free(snapshot->positions);
    free(snapshot->orders);
    *snapshot = (struct tw_snapshot){0};
}
