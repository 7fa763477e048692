// Workers that a service of Kubernetes stands for, by its API: all EndpointSlices are listed, then their changes are
// watched, so a pod that is not ready any more leaves at once. What cannot be asked changes nothing: the last workers
// stay. No client library: the API is HTTPS with a certificate of the cluster and the pod's own token.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/sweeper.h"
#include "http/server.h"
#include "http/upstream.h"
#include "route/kube_slices.h"
#include "route/raised_flag.h"

namespace quire {

// Where the API is and who asks it. A pod has all of this.
struct KubeApi {
  UpstreamAddress at;  // over TLS
  // Files: who signed the API's certificate; what is sent with each question, read again each time, for it changes; the
  // pod's own namespace.
  std::string ca_file, token_file, space_file;
};
// Of the environment of a pod. Fails (Code::not_found) where this is none.
Result<KubeApi> kube_api_of_pod();

class KubeDiscovery {
 public:
  // The workers of all services, whenever they are others than before. Not beside itself; must not call back.
  using Changed = std::function<void(const std::vector<WorkerSpec>& workers)>;

  // REQUIRES services of different names; `server`, whose io threads ask, outlives it. Fails (Code::io) naming the file
  // that cannot be read.
  static Result<std::unique_ptr<KubeDiscovery>> start(Server& server,
                                                      std::vector<KubeService> services,
                                                      const KubeApi& api,
                                                      Changed changed);
  ~KubeDiscovery();

 private:
  class Question;
  struct Watched;
  KubeDiscovery(Server& server, KubeApi api, UpstreamLimits limits, Changed changed);
  void sweep();
  void ask(Watched& one, const RaisedFlag& flag);
  void heard(Watched& one);
  void watched_well(Watched& one);
  void ended(Watched& one, const std::string& why);

  Server& server_;
  const KubeApi api_;
  const UpstreamLimits limits_;
  const Changed changed_;
  SystemClock clock_;
  std::mutex mu_;                                  // guards what is told
  std::vector<std::shared_ptr<Watched>> watched_;  // with what is posted of each
  std::vector<WorkerSpec> told_;
  std::unique_ptr<Sweeper> sweeper_;  // last: it uses the others
};

}  // namespace quire
