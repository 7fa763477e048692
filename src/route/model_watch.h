// Looks again and again at which models of this machine there are, in a thread of its own, because folders and files
// are read at the speed of disks. The one idea: a file that is being written is not a model yet, so what is new, or
// other than before, is taken when two looks one after the other have seen the same, and is gone when two have
// missed it: what reads a folder may be short of something for a moment. While a folder cannot be read, what was there
// stays.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "route/local_engines.h"

namespace quire {

class ModelWatch {
 public:
  // All models that there are, whenever that is something else than before, or more is known of one. On the thread.
  using Changed = std::function<void(std::vector<LocalModel> models)>;

  // Looks by options.reread, if it is there; asks options.show once for each model, and again when its file's size or
  // time changes; where that told nothing, also when who may read it does. What throws is a look that failed, or tells
  // nothing; the log is told. The destructor waits for them.
  ModelWatch(const LocalOptions& options, Changed changed);
  ~ModelWatch();
  ModelWatch(const ModelWatch&) = delete;
  ModelWatch& operator=(const ModelWatch&) = delete;

 private:
  void run();
  Result<std::vector<LocalModel>> reread() const;
  bool look();
  bool show_all();
  bool ending() const;

  const std::function<Result<std::vector<LocalModel>>()> reread_;
  const std::function<std::string(const LocalModel& model)> show_;
  const int64_t every_ms_;
  const Changed changed_;

  // Of the thread.
  std::vector<LocalModel> models_;            // as they were told of last
  std::map<std::string, LocalModel> looked_;  // what the last look saw that is not told of yet
  std::set<std::string> missed_;              // names of models_ that the last look did not see
  std::map<std::string, LocalModel> untold_;  // those of which nothing was told, as they were then
  bool failed_ = false;                       // the last look

  mutable std::mutex mu_;
  std::condition_variable ends_;
  bool ending_ = false;  // guarded by mu_
  std::thread thread_;   // last: it uses the others
};

}  // namespace quire
