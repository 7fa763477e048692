// The addresses behind a service of Kubernetes, as its API tells of them: EndpointSlices, first all, then each change.
// Pure: bytes of the API in, workers out. Source: the API's reference, discovery.k8s.io/v1.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "route/worker.h"

namespace quire {

struct KubeService {
  std::string space;  // namespace; empty: that of this pod
  std::string name;
  // A port of the pods, or the name of one of the service's ports; empty: the only one of a slice, or the one called
  // "http".
  std::string port;
  // The paths of the API's answers: all slices, and from a version on their changes. REQUIRES a namespace.
  std::string list_path() const;
  std::string watch_path(const std::string& version) const;
};

// "kubernetes://[NAMESPACE/]SERVICE[:PORT]". Fails (Code::invalid) naming what is wrong.
inline constexpr std::string_view kKubeScheme = "kubernetes://";
Result<KubeService> parse_kube_service(const std::string& url);

class KubeSlices {
 public:
  static constexpr size_t kMostWorkers = 1024, kMostSlices = 4096;

  // `port` as KubeService has it.
  explicit KubeSlices(std::string port) : port_(std::move(port)) {}
  // All that there is. Fails (Code::corrupt), with nothing changed, where it is no list of slices.
  Status list(std::string_view body);
  // One line of a watch. Fails (Code::corrupt) where it is none, (Code::not_found) where the API says that it cannot go
  // on from this version: then all has to be listed anew.
  Status change(std::string_view line);
  // From where a watch goes on; empty: nothing was listed.
  const std::string& version() const { return version_; }
  // All is to be listed anew; until then what is known stays.
  void forget_version() { version_.clear(); }
  // Those that are ready, in order, each once; of IPv4 alone where there are any, at most kMostWorkers.
  std::vector<WorkerSpec> workers() const;

 private:
  struct Slice {
    bool v6 = false;
    std::vector<UpstreamAddress> ready;
  };
  bool read(const Json& object, std::map<std::string, Slice>& into) const;
  int port_of(const Json& slice) const;

  const std::string port_;
  std::string version_;
  std::map<std::string, Slice> slices_;  // by name
};

}  // namespace quire
