#include "app/engine_names.h"

#include <array>
#include <string_view>
#include <utility>

namespace quire {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kNames = {{
    {"allowance", "--allowance"},
    {"itl_target_ms", "--itl-target"},
    {"kv_disk", "--kv-disk"},
    {"kv_policy", "--kv-policy"},
    {"kv_remote", "--kv-remote"},
    {"kv_remote_keep_s", "--kv-remote-ttl"},
    {"max_draft", "--spec-depth"},
    {"max_pins", "--limit n_pins"},
    {"max_queue", "--max-queue"},
    {"max_seqs", "--max-seqs"},
    {"n_ctx", "--ctx"},
    {"pin_bytes", "--pin-memory"},
    {"retain_share", "--retain-share"},
    {"step_target_ms", "--step-target"},
    {"step_tokens", "--step-tokens"},
    {"swap_bytes", "--swap-memory"},
}};

}  // namespace

Error in_option_names(Error error) {
  const std::string_view first = std::string_view(error.message).substr(0, error.message.find_first_of(" :"));
  for (const auto& [name, option] : kNames) {
    if (first != name) continue;
    error.message.replace(0, name.size(), option);
    break;
  }
  return error;
}

}  // namespace quire
