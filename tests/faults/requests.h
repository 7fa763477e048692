// The requests that are tried, one for each thing that a request can be: every door, streamed and not, with everything
// that makes something of its own on the way.
#pragma once
#include <string>
#include <vector>

#include "serve/essence_testing.h"

namespace quire {

inline std::vector<Tried> generating_requests() {
  const std::string more = R"("seed":7,"max_tokens":12,"temperature":0.5,)";
  const std::string chat = R"("messages":[{"role":"user","content":"the cat"}])";
  const std::string tool =
      R"("tools":[{"type":"function","function":{"name":"sit","parameters":{"type":"object",)"
      R"("properties":{"where":{"type":"string","maxLength":3}},"required":["where"]}}}],"tool_choice":"required")";
  const std::string schema =
      R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object",)"
      R"("properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}}})";
  std::vector<Tried> out = tried_at_every_door(200);
  try_both("/v1/chat/completions", more + tool + "," + chat, out);
  try_both("/v1/chat/completions", more + schema + "," + chat, out);
  out.push_back({"POST", "/v1/completions", "{" + more + R"("prompt":"a","guided_regex":"(the|a) ca?t"})"});
  out.push_back({"POST", "/v1/completions", "{" + more + R"("prompt":"a","guided_grammar":"root ::= \"x\" [a-z]+"})"});
  try_both("/completion", R"("prompt":"the cat","n_predict":12,"seed":7,"n_probs":2)", out);
  out.push_back({"POST", "/api/embed", R"({"input":"the cat"})"});
  out.push_back({"POST", "/v1/cache/explain", R"({"prompt":"the cat sat on the cat"})"});
  return out;
}

inline std::vector<Tried> plain_requests() {
  std::vector<Tried> out = tried_beside_them();
  out.push_back({"POST", "/v1/completions", R"({"prompt":"a","n":1000})"});
  out.push_back({"POST", "/v1/completions", R"({"prompt":"a","guided_regex":"(a"})"});
  out.push_back({"POST", "/api/show", R"({"model":"tiny"})"});
  out.push_back({"POST", "/v1/unload_lora_adapter", R"({"lora_name":"none"})"});
  out.push_back({"DELETE", "/v1/streams/none", ""});
  out.push_back({"GET", "/v1/responses/none", ""});
  out.push_back({"OPTIONS", "/v1/completions", ""});
  out.push_back({"GET", "/none", ""});
  for (const char* path : {"/health", "/ready", "/v1/models", "/v1/models/tiny", "/props", "/metrics", "/api/tags",
                           "/slots", "/api/ps", "/version", "/v1/cache/pins", "/lora-adapters", "/"})
    out.push_back({"GET", path, ""});
  return out;
}

}  // namespace quire
