#include "app/access_options.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "app/remote.h"
#include "app/text_file.h"

namespace quire {
namespace {

constexpr int64_t kMaxKeyFileBytes = 8 << 20;

Status add_plain(const std::vector<std::string>& texts, const char* option, bool admin, std::vector<ApiKey>& out) {
  for (const std::string& text : texts) {
    const std::string name =
        std::string(admin ? "admin" : "key") + (texts.size() > 1 ? std::to_string(out.size()) : "");
    if (text.empty()) return fail(Code::invalid, std::string(option) + " must not be empty");
    ApiKey key = plain_key(name, text, !admin, admin);
    for (const ApiKey& other : out)
      if (same_digest(other.hash, key.hash)) return fail(Code::invalid, std::string(option) + ": a key is given twice");
    out.push_back(std::move(key));
  }
  return {};
}

Status add_file(const std::string& path, std::vector<ApiKey>& out) {
  QR_TRY(const std::string text, read_text_file("--api-keys", path, kMaxKeyFileBytes));
  auto keys = read_keys(text);
  if (!keys) return fail(keys.error().code, "--api-keys: " + path + ": " + keys.error().message);
  for (ApiKey& key : *keys) {
    for (const ApiKey& other : out)
      if (other.name == key.name || same_digest(other.hash, key.hash))
        return fail(Code::invalid, "--api-keys: " + path + ": the key " + key.name + " is given as an option too");
    out.push_back(std::move(key));
  }
  return {};
}

// The collector's base, as OTEL_EXPORTER_OTLP_ENDPOINT has it, or the whole path of its traces.
Status set_collector(const std::string& url, TraceOptions& traces) {
  auto remote = parse_remote(url);
  if (!remote) return fail(Code::invalid, "--otlp-endpoint: " + remote.error().message);
  if (!url.starts_with("http://"))
    return fail(Code::invalid, "--otlp-endpoint must be http://HOST:PORT, got \"" + url + "\"");
  traces.host = std::move(remote->host);
  traces.port = remote->port;
  traces.path = remote->base.ends_with("/v1/traces") ? remote->base : remote->base + "/v1/traces";
  return {};
}

// The row of that name in a table of limits; null for none.
template <class Rows>
auto find_row(const Rows& rows, std::string_view name) -> decltype(&*rows.begin()) {
  for (const auto& row : rows)
    if (row.name == name) return &row;
  return nullptr;
}

// "body_bytes=33554432", of the tables that `quire limits` prints.
Status set_limit(const std::string& text, const SetLimit& set_own, HttpLimits& http) {
  const size_t equals = std::min(text.find('='), text.size());
  const std::string name = text.substr(0, equals), number = text.substr(std::min(equals + 1, text.size()));
  int64_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (number.empty() || error != std::errc() || end != number.data() + number.size() || value < 1 ||
      value > std::numeric_limits<int>::max())
    return fail(Code::invalid, "--limit must be NAME=VALUE with a value of 1 to " +
                                   std::to_string(std::numeric_limits<int>::max()) + ", got \"" + text + "\"");
  if (set_own(name, value)) return {};
  if (const HttpLimitRow* row = find_row(http_limit_rows(), name)) {
    if (row->wide != nullptr)
      http.*row->wide = value;
    else
      http.*row->narrow = static_cast<int>(value);
    return {};
  }
  return fail(Code::invalid, "--limit: there is no limit \"" + name + "\"; docs/limits.md has them");
}

}  // namespace

void declare_door_options(CommandLine& line, AccessOptions& access, DoorOptions& door) {
  line.option("--host", door.host, "address to listen on; of `quire serve` also several, with commas between them");
  line.option("--port", door.port, {0, 65535}, "port to listen on, 0 for any free one");
  line.option("--admin-host", door.admin_host, "address of what is the operator's, with --admin-port");
  line.option("--admin-port", door.admin_port, {0, 65535, -1},
              "port for /metrics and what else is the operator's; -1: at --port, for clients of this machine only");
  line.option("--api-key", access.keys, "clients must send one of these, may be repeated; better in QUIRE_API_KEY");
  line.option("--admin-key", access.admin_keys, "/metrics and what else is the operator's need one of these");
  line.option("--api-keys", access.key_file, "file of keys: names, SHA-256, scopes and limits");
  line.option("--tls-cert", door.tls_certificate, "PEM file of the certificate and its chain: answer over HTTPS");
  line.option("--tls-key", door.tls_key, "PEM file of its key, without a passphrase");
  line.option("--allow-host", door.guard.hosts, "another name that a server on loopback is called by, may be repeated");
  line.option("--cors-origin", door.guard.origins,
              "pages of this origin may ask from browsers, * for all; may be repeated");
  line.option("--max-connections", door.http.n_connections, {1, 1'000'000}, "open connections, beyond it 503");
  line.option("--max-connections-per-address", door.http.n_connections_per_address, {0, 1'000'000},
              "of them from one address (IPv6: one /64), beyond it 429; 0 for no limit");
  line.option("--limit", access.limits, "NAME=VALUE: another value for a limit of docs/limits.md, may be repeated");
}

void declare_access_options(CommandLine& line, AccessOptions& access, ServeOptions& serve) {
  declare_door_options(line, access, serve);
  line.option("--log-requests", access.request_log, "a line for each request on stderr: off, text or json");
  line.option("--otlp-endpoint", access.otlp_endpoint,
              "send OpenTelemetry traces to this collector, such as http://127.0.0.1:4318; empty: none");
}

Status apply_door(const AccessOptions& access, const SetLimit& set_own, DoorOptions& door) {
  for (const std::string& origin : door.guard.origins) {
    const Status ok = check_origin(origin);
    if (!ok) return fail(Code::invalid, "--cors-origin: " + ok.error().message);
  }
  if (!door.admin_host.empty() && door.admin_port < 0) return fail(Code::invalid, "--admin-host needs --admin-port");
  if (door.tls_certificate.empty() != door.tls_key.empty())
    return fail(Code::invalid, "--tls-cert and --tls-key need each other");
  for (const std::string& limit : access.limits) QR_TRY_VOID(set_limit(limit, set_own, door.http));
  QR_TRY_VOID(add_plain(access.keys, "--api-key", false, door.keys));
  QR_TRY_VOID(add_plain(access.admin_keys, "--admin-key", true, door.keys));
  return access.key_file.empty() ? Status{} : add_file(access.key_file, door.keys);
}

Status apply_access(const AccessOptions& access, ServeOptions& serve) {
  QR_TRY_VOID(apply_door(
      access,
      [&serve](std::string_view name, int64_t value) {
        const LimitRow* row = find_row(limit_rows(), name);
        if (row != nullptr) serve.limits.*row->value = value;
        return row != nullptr;
      },
      serve));
  const auto log = parse_request_log(access.request_log);
  if (!log) return fail(Code::invalid, "--log-requests " + log.error().message);
  serve.request_log = *log;
  return access.otlp_endpoint.empty() ? Status{} : set_collector(access.otlp_endpoint, serve.traces);
}

}  // namespace quire
