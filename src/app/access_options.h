// The options that say who may ask: addresses, keys, names, pages elsewhere, limits of sockets; and of `quire serve`,
// who is told of requests.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/command.h"
#include "serve/run.h"

namespace quire {

struct AccessOptions {
  std::vector<std::string> keys, admin_keys;  // as they are
  std::string key_file;
  std::vector<std::string> limits;  // NAME=VALUE
  std::string request_log = "text", otlp_endpoint;
};

// `door` holds the defaults, and is what options without work of their own are written to; both live until the command
// has run.
void declare_door_options(CommandLine& line, AccessOptions& access, DoorOptions& door);
// Sets a limit that is the command's own; false: it has none of that name.
using SetLimit = std::function<bool(std::string_view name, int64_t value)>;
// The rest of `door`, from what was given. Fails (Code::invalid, Code::io) naming the option.
Status apply_door(const AccessOptions& access, const SetLimit& set_own, DoorOptions& door);

// The same with what `quire serve` has beside it.
void declare_access_options(CommandLine& line, AccessOptions& access, ServeOptions& serve);
// The rest of `serve`, from what was given. Fails (Code::invalid, Code::io) naming the option.
Status apply_access(const AccessOptions& access, ServeOptions& serve);

}  // namespace quire
