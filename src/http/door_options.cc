#include "http/door_options.h"

namespace quire {

ServerOptions clients_server(const DoorOptions& door, Metrics& metrics) {
  return {.host = door.host,
          .port = door.port,
          .n_io_threads = door.n_io_threads,
          .tls_certificate = door.tls_certificate,
          .tls_key = door.tls_key,
          .limits = door.http,
          .metrics = &metrics};
}

ServerOptions operators_server(const DoorOptions& door, Metrics& metrics) {
  return {.host = door.operators_host(),
          .port = door.admin_port,
          .n_io_threads = 1,
          .tls_certificate = {},
          .tls_key = {},
          .limits = door.http,
          .metrics = &metrics};
}

}  // namespace quire
