// A model in this process behind the very server that `quire serve` runs, on a loopback port with a key that nobody
// else knows: `quire chat` and `quire batch` speak to it as they speak to any other, so that their answers are the
// server's.
#pragma once
#include <memory>

#include "app/adapters.h"
#include "app/memory_plan.h"
#include "app/remote.h"
#include "app/wire.h"
#include "base/metrics.h"
#include "serve/run.h"

namespace quire {

class LocalServer {
 public:
  // Fits the model into memory, loads it and listens. `engine.n_ctx` and `kv_bytes` of 0 are chosen.
  // `adapters`: of --lora.
  static Result<std::unique_ptr<LocalServer>> start(ModelOptions model,
                                                    EngineOptions engine,
                                                    const std::vector<std::string>& adapters = {});
  ~LocalServer();

  const Remote& remote() const { return remote_; }
  std::string model() const { return model_name(loaded_.path); }

 private:
  LocalServer() = default;

  // Destroyed from the last to the first: whoever uses another comes after it.
  LoadedModel loaded_;
  SystemClock clock_;
  Metrics metrics_;
  StepSignal signal_;
  std::unique_ptr<AdapterTable> adapters_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Serving> serving_;
  Remote remote_;
};

}  // namespace quire
