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
  RedisOptions redis;  // of check_directory_place()
};
void declare_directory_options(CommandLine& line, DirectoryPlace& place);
// Reads the options and the files. Fails (Code::invalid, Code::io) naming the option.
Status check_directory_place(DirectoryPlace& place);
// Whether routers can reach a server that listens at `url`, its address in digits: without --advertise that is what
// they are told. Fails (Code::invalid). REQUIRES check_directory_place(), here and below.
Status check_reachable(const DirectoryPlace& place, const std::string& url);
// Null where there is no directory. `url`: where the server listens.
std::unique_ptr<WorkerEntry> enter_directory(const DirectoryPlace& place, const std::string& url);

}  // namespace quire
