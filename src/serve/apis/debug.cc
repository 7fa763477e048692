// GET /debug/requests: what each request that is here waits for, for the operator.
#include "serve/api.h"
#include "serve/request_list.h"

namespace quire {
namespace {

ApiResult<Call> requests(const ApiRequest&, const ServeEnv& env) {
  return Answer{.body = describe_requests(env.requests()).dump()};
}

const Api kApi{{
    {.method = "GET",
     .path = "/debug/requests",
     .quick = true,
     .admin = true,
     .parse = &requests,
     .summary = "What each request that is here waits for, in one sentence"},
}};
QR_REGISTER(Api, "debug", kApi);

}  // namespace
}  // namespace quire
