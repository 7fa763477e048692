#include "route/kube_slices.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "http/server_url.h"

namespace quire {
namespace {

const std::string* text_of(const Json& object, std::string_view name) {
  const Json* value = object.find(name);
  return value != nullptr ? value->as_string() : nullptr;
}

const std::string* meta_of(const Json& object, std::string_view name) {
  const Json* meta = object.find("metadata");
  return meta != nullptr ? text_of(*meta, name) : nullptr;
}

const Json::Array* list_of(const Json& object, std::string_view name) {
  const Json* value = object.find(name);
  return value != nullptr ? value->as_array() : nullptr;
}

// Letters that a name of the API has, so that nothing else gets into a path.
bool is_name(std::string_view text) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; };
  return !text.empty() && text.size() <= 253 && text.front() != '.' && std::ranges::all_of(text, fits);
}

// A version goes into a path too; what it means is the API's alone.
bool is_version(const std::string* text) {
  const auto fits = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return text != nullptr && !text->empty() && text->size() <= 100 && std::ranges::all_of(*text, fits);
}

// Whether it is one of the slice's addressType, of digits alone: a name, which FQDN has, would be looked up anywhere.
bool is_address(const std::string& text, std::string_view type) {
  in6_addr bytes{};
  const int family = type == "IPv4" ? AF_INET : type == "IPv6" ? AF_INET6 : AF_UNSPEC;
  return family != AF_UNSPEC && text.find('\0') == std::string::npos && ::inet_pton(family, text.c_str(), &bytes) == 1;
}

// Nothing said is ready, as the API's reference has it.
bool is_ready(const Json& endpoint) {
  const Json* conditions = endpoint.find("conditions");
  const Json* ready = conditions != nullptr ? conditions->find("ready") : nullptr;
  return ready == nullptr || ready->as_bool() == nullptr || *ready->as_bool();
}

}  // namespace

std::string KubeService::list_path() const {
  return "/apis/discovery.k8s.io/v1/namespaces/" + space +
         "/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D" + name;
}

std::string KubeService::watch_path(const std::string& version) const {
  return list_path() + "&watch=1&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=" + version;
}

Result<KubeService> parse_kube_service(const std::string& url) {
  const auto bad = [&](const char* why) {
    return fail(Code::invalid,
                "a service is kubernetes://[NAMESPACE/]SERVICE[:PORT]: " + std::string(why) + ", got \"" + url + "\"");
  };
  std::string_view rest(url);
  if (!rest.starts_with(kKubeScheme)) return bad("the scheme is another");
  rest.remove_prefix(kKubeScheme.size());
  KubeService out;
  if (const size_t colon = rest.find(':'); colon != std::string_view::npos) {
    out.port = rest.substr(colon + 1);
    const bool is_number =
        !out.port.empty() && std::ranges::all_of(out.port, [](char c) { return c >= '0' && c <= '9'; });
    if (!is_name(out.port) || (is_number && !read_port(out.port)))
      return bad("a port is one of the pods, 1 to 65535, or the name of one of the service's");
    rest = rest.substr(0, colon);
  }
  if (const size_t slash = rest.find('/'); slash != std::string_view::npos) {
    out.space = rest.substr(0, slash);
    if (!is_name(out.space)) return bad("the namespace is no name of lower-case letters, digits and '-'");
    rest.remove_prefix(slash + 1);
  }
  if (!is_name(rest)) return bad("the service is no name of lower-case letters, digits and '-'");
  out.name = rest;
  return out;
}

int KubeSlices::port_of(const Json& slice) const {
  if (const std::optional<int> port = read_port(port_)) return *port;
  const Json::Array* ports = list_of(slice, "ports");
  if (ports == nullptr) return 0;
  const std::string_view wanted = port_.empty() ? "http" : std::string_view(port_);
  for (const Json& port : *ports) {
    const std::string* name = text_of(port, "name");
    const Json* number = port.find("port");
    const bool is_it = (name != nullptr && *name == wanted) || (port_.empty() && ports->size() == 1);
    if (is_it && number != nullptr && number->as_int() != nullptr && *number->as_int() >= 1 &&
        *number->as_int() <= 65535)
      return static_cast<int>(*number->as_int());
  }
  return 0;
}

bool KubeSlices::read(const Json& object, std::map<std::string, Slice>& into) const {
  const std::string* name = meta_of(object, "name");
  if (name == nullptr) return false;
  Slice slice;
  const std::string* said_type = text_of(object, "addressType");
  const std::string_view type = said_type != nullptr ? std::string_view(*said_type) : "IPv4";
  slice.v6 = type == "IPv6";
  const int port = port_of(object);
  const Json::Array* endpoints = list_of(object, "endpoints");
  if (endpoints != nullptr && port > 0)
    for (const Json& endpoint : *endpoints) {
      const Json::Array* addresses = list_of(endpoint, "addresses");
      if (addresses == nullptr || addresses->empty() || !is_ready(endpoint)) continue;
      const std::string* address = addresses->front().as_string();
      if (address == nullptr || !is_address(*address, type)) continue;
      if (slice.ready.size() < kMostWorkers) slice.ready.push_back({*address, port});
    }
  if (into.contains(*name) || into.size() < kMostSlices) into[*name] = std::move(slice);
  return true;
}

Status KubeSlices::list(std::string_view body) {
  const Result<Json> all = Json::parse(body);
  const Json::Array* items = all ? list_of(*all, "items") : nullptr;
  const std::string* version = all ? meta_of(*all, "resourceVersion") : nullptr;
  if (items == nullptr || !is_version(version)) return fail(Code::corrupt, "this is no list of EndpointSlices");
  std::map<std::string, Slice> slices;
  for (const Json& item : *items)
    if (!read(item, slices)) return fail(Code::corrupt, "an EndpointSlice without a name");
  slices_ = std::move(slices);
  version_ = *version;
  return {};
}

Status KubeSlices::change(std::string_view line) {
  const Result<Json> event = Json::parse(line);
  const std::string* type = event ? text_of(*event, "type") : nullptr;
  const Json* object = event ? event->find("object") : nullptr;
  if (type == nullptr || object == nullptr) return fail(Code::corrupt, "this is no event of a watch");
  if (*type == "ERROR") {
    version_.clear();
    const std::string* why = text_of(*object, "message");
    return fail(Code::not_found, why != nullptr ? *why : "the watch ends with an error");
  }
  const std::string* name = meta_of(*object, "name");
  const std::string* version = meta_of(*object, "resourceVersion");
  if (*type == "DELETED" && name != nullptr) slices_.erase(*name);
  const bool changes = *type == "ADDED" || *type == "MODIFIED";
  if (changes && !read(*object, slices_)) return fail(Code::corrupt, "an EndpointSlice without a name");
  if (is_version(version)) version_ = *version;
  return {};
}

std::vector<WorkerSpec> KubeSlices::workers() const {
  const bool any_v4 =
      std::ranges::any_of(slices_, [](const auto& s) { return !s.second.v6 && !s.second.ready.empty(); });
  std::vector<UpstreamAddress> all;
  for (const auto& [name, slice] : slices_)
    if (!any_v4 || !slice.v6) all.insert(all.end(), slice.ready.begin(), slice.ready.end());
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all.size() > kMostWorkers) all.resize(kMostWorkers);
  std::vector<WorkerSpec> out;
  out.reserve(all.size());
  for (UpstreamAddress& at : all) out.push_back({std::move(at), ""});
  return out;
}

}  // namespace quire
