// A server's place in the directory of routers: its options, and the place itself once it answers.
#pragma once
#include <memory>
#include <string>

#include "app/command.h"
#include "base/result.h"
#include "redis/redis_client.h"
#include "route/worker_list.h"

namespace quire {

struct DirectoryPlace {
  std::string url;         // of the directory; empty: none
  std::string advertised;  // how routers reach this server; empty: where it listens
  RedisTlsFiles files;
};
void declare_directory_options(CommandLine& line, DirectoryPlace& place);
// What can be known to be wrong at once. `host`: that the server listens on.
Status check_directory_place(const DirectoryPlace& place, const std::string& host);
// Null where there is no directory. `url`: where the server listens. REQUIRES check_directory_place().
Result<std::unique_ptr<WorkerEntry>> enter_directory(const DirectoryPlace& place, const std::string& url);

}  // namespace quire
