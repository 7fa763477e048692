// The options of `quire serve` that say who may ask: addresses, keys, names, pages elsewhere, limits of sockets; and
// who is told of requests.
#pragma once
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

// `serve` holds the defaults, and is what options without work of their own are written to; both live until the command
// has run.
void declare_access_options(CommandLine& line, AccessOptions& access, ServeOptions& serve);
// The rest of `serve`, from what was given. Fails (Code::invalid, Code::io) naming the option.
Status apply_access(const AccessOptions& access, ServeOptions& serve);

}  // namespace quire
