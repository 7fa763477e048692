#include "route/session_key.h"

#include <algorithm>

#include "base/rng.h"

namespace quire {
namespace {

constexpr int64_t kUsualAnswer = 256, kMostAnswer = 4096;  // tokens: where none are said, and where many are
constexpr size_t kKeyBlocks = 16;                          // of the prompt's beginning, 1 KiB

struct PathKind {
  std::string_view prefix, kind;
};
constexpr PathKind kPaths[] = {{"/v1/responses/", kResponseKind}, {"/v1/streams/", kStreamKind}};

bool find_in_path(const HttpRequest& request, uint64_t tenant, RouteAsk& out) {
  for (const PathKind& path : kPaths) {
    if (!request.path.starts_with(path.prefix)) continue;
    std::string_view name = std::string_view(request.path).substr(path.prefix.size());
    name = name.substr(0, name.find('/'));
    out.session = session_of(tenant, path.kind, name);
    out.pinned = true;
    return true;
  }
  return false;
}

}  // namespace

uint64_t tenant_of(const Sha256& key) {
  uint64_t out = 0;
  for (size_t i = 0; i < sizeof out; ++i) out = out << 8 | key[i];
  return std::max<uint64_t>(1, out);
}

Hash128 session_of(uint64_t tenant, std::string_view kind, std::string_view name) {
  const uint64_t seed = hash128(kind.data(), kind.size(), tenant).lo;
  return hash128(name.data(), name.size(), seed);
}

RouteAsk route_ask(const HttpRequest& request, const Asked& asked, uint64_t tenant, const std::string& base) {
  RouteAsk out;
  if (find_in_path(request, tenant, out)) return out;
  out.model = asked.model;
  const std::string& whose = base.empty() ? asked.model : base;
  out.blocks = block_names(asked, hash128(whose.data(), whose.size(), mix64(tenant)).lo);
  out.prompt_tokens = tokens_of_bytes(asked.text_bytes);
  out.answer_tokens = asked.max_tokens > 0 ? std::min(asked.max_tokens, kMostAnswer) : kUsualAnswer;
  out.n_requests = asked.n_sequences();
  const std::string* field = request.header("x-session-id");
  if (!asked.previous_response_id.empty()) {
    out.session = session_of(tenant, kResponseKind, asked.previous_response_id);
    out.pinned = true;
  } else if (!asked.prompt_cache_key.empty()) {
    out.session = session_of(tenant, "prompt_cache_key", asked.prompt_cache_key);
  } else if (field != nullptr && !field->empty()) {
    out.session = session_of(tenant, "x-session-id", *field);
  } else if (!asked.user.empty()) {
    out.session = session_of(tenant, "user", asked.user);
  } else if (!out.blocks.empty()) {
    out.key = out.blocks[std::min(out.blocks.size(), kKeyBlocks) - 1];
  } else {
    out.key = hash128(asked.body.data(), asked.body.size(), tenant).lo;
  }
  return out;
}

}  // namespace quire
