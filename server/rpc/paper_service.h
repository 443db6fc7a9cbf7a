/* paper_service.h - tradewake.paper.v1.PaperService over adapters/paper: the broker's side of the
 * simulated broker, for demos, tests and drills. Served only where paper.control is true.
 *
 * Everything is answered on the rpc thread at once: the adapter's control does not wait for
 * anybody. */
#ifndef TW_RPC_PAPER_SERVICE_H
#define TW_RPC_PAPER_SERVICE_H

#include <tradewake/wire/server.h>

/* The paper adapter, as its open gave it. NULL: every call is NOT_FOUND.
 * Thread: main, before tw_wire_server_start(); the adapter stays until after its stop. */
void tw_paper_service_adapter_set(void *adapter);

/* The rows for the table of methods. */
void tw_paper_get_book_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                  const struct tw_refusal *invalid);
void tw_paper_configure_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                   const struct tw_refusal *invalid);
void tw_paper_act_on_request(struct tw_call *call, const ProtobufCMessage *request,
                             const struct tw_refusal *invalid);

/* clang-format off */
#define TW_PAPER_METHODS                                                                            \
    {.path = "/tradewake.paper.v1.PaperService/GetBook", .on_request = tw_paper_get_book_on_request}, \
    {.path = "/tradewake.paper.v1.PaperService/Configure", .on_request = tw_paper_configure_on_request}, \
    {.path = "/tradewake.paper.v1.PaperService/ActByHand", .on_request = tw_paper_act_on_request}
/* clang-format on */

#endif
