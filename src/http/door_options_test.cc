#include "http/door_options.h"

#include <gtest/gtest.h>

#include "base/metrics.h"

namespace quire {
namespace {

DoorOptions door() {
  DoorOptions out;
  out.host = "0.0.0.0";
  out.port = 81;
  out.n_io_threads = 3;
  out.admin_port = 82;
  out.tls_certificate = "cert.pem";
  out.tls_key = "key.pem";
  out.http.body_bytes = 1234;
  return out;
}

TEST(DoorOptions, ClientsComeToWhatTheCommandLineSays) {
  Metrics metrics;
  const ServerOptions server = clients_server(door(), metrics);
  EXPECT_EQ(server.host, "0.0.0.0");
  EXPECT_EQ(server.port, 81);
  EXPECT_EQ(server.n_io_threads, 3);
  EXPECT_EQ(server.tls_certificate, "cert.pem");
  EXPECT_EQ(server.tls_key, "key.pem");
  EXPECT_EQ(server.limits.body_bytes, 1234);
  EXPECT_EQ(server.metrics, &metrics);
}

TEST(DoorOptions, TheOperatorsAddressIsPlainAndOfThisMachineUnlessItIsNamed) {
  Metrics metrics;
  DoorOptions options = door();
  const ServerOptions server = operators_server(options, metrics);
  EXPECT_EQ(server.host, "127.0.0.1");
  EXPECT_EQ(server.port, 82);
  EXPECT_EQ(server.n_io_threads, 1);
  EXPECT_EQ(server.tls_certificate, "");
  EXPECT_EQ(server.tls_key, "");
  EXPECT_EQ(server.limits.body_bytes, 1234);
  EXPECT_EQ(server.metrics, &metrics);
  options.admin_host = "10.0.0.7";
  EXPECT_EQ(operators_server(options, metrics).host, "10.0.0.7");
}

}  // namespace
}  // namespace quire
