#include "http/server_url.h"

#include <algorithm>
#include <charconv>

namespace quire {
namespace {

tl::unexpected<Error> wrong(std::string what) { return fail(Code::invalid, std::move(what)); }

// Of "host", "host:port" and "[address]:port".
Result<UpstreamAddress> read_authority(std::string_view text, int usual_port) {
  UpstreamAddress out;
  out.port = usual_port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return wrong("no ] after [");
    out.host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    if (!text.empty() && text.front() != ':') return wrong("after ] comes :port");
  } else {
    out.host = text.substr(0, text.find(':'));
    text.remove_prefix(out.host.size());
  }
  if (out.host.empty()) return wrong("no host");
  if (text.empty()) return out;
  text.remove_prefix(1);
  const std::optional<int> port = read_port(text);
  if (!port) return wrong("the port must be 1 to 65535, got \"" + std::string(text) + "\"");
  out.port = *port;
  return out;
}

}  // namespace

std::optional<int> read_port(std::string_view digits) {
  int port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port < 1 || port > 65535) return std::nullopt;
  return port;
}

Result<ServerUrl> parse_server_url(std::string_view url) {
  constexpr std::string_view kPlain = "http://", kTls = "https://", kVersion = "/v1";
  const bool tls = url.starts_with(kTls);
  if (tls) url.remove_prefix(kTls.size());
  if (!tls && url.starts_with(kPlain)) url.remove_prefix(kPlain.size());
  if (url.find("://") != std::string_view::npos) return wrong("the scheme must be http or https");
  const auto is_plain = [](char c) { return c > ' ' && c < 0x7f && c != '?' && c != '#' && c != '@'; };
  if (!std::all_of(url.begin(), url.end(), is_plain)) return wrong("it holds a character that has no place there");
  const size_t slash = std::min(url.find('/'), url.size());
  ServerUrl out;
  QR_TRY(out.at, read_authority(url.substr(0, slash), tls ? 443 : 80));
  if (tls) out.at.tls_name = out.at.host;
  std::string_view base = url.substr(slash);
  while (base.ends_with('/')) base.remove_suffix(1);
  if (base.ends_with(kVersion)) base.remove_suffix(kVersion.size());
  out.base = base;
  return out;
}

}  // namespace quire
