// An address that clients come to, as the command line describes it: where it is, who may ask there, and the limits of
// its sockets. Plain values; what a server and a router have in common.
#pragma once
#include <string>
#include <vector>

#include "http/guard.h"
#include "http/keys.h"
#include "http/limits.h"
#include "http/server.h"

namespace quire {

struct DoorOptions {
  std::string host = "127.0.0.1";
  int port = 8080;  // 0: any free one
  int n_io_threads = 1;
  std::vector<ApiKey> keys;              // empty: none is asked for
  std::string admin_host;                // of the operator's endpoints; empty with admin_port -1: those of this machine
  int admin_port = -1;                   // may ask for them at the server's own address. 0: any free one
  std::string tls_certificate, tls_key;  // PEM files; empty: plain HTTP. The operator's address is plain
  GuardOptions guard;                    // `loopback` is filled in
  HttpLimits http;

  // Where the operator's own address is.
  std::string operators_host() const { return admin_host.empty() ? "127.0.0.1" : admin_host; }
};

// The server that clients come to, and the operator's, where it has an address of its own: one io thread, plain HTTP.
// `metrics` outlives both.
ServerOptions clients_server(const DoorOptions& door, Metrics& metrics);
ServerOptions operators_server(const DoorOptions& door, Metrics& metrics);

}  // namespace quire
