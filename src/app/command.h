// One file per subcommand (commands/<name>.cc): it registers itself with a function that declares its options and
// returns what to run. The same declarations make the help, the environment names, the config file's keys and the table
// in docs/options.md, so nothing about an option is said twice.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.h"
#include "base/result.h"

namespace quire {

// The numbers that an option takes: lo to hi, and perhaps one more that means something else.
struct Range {
  double lo, hi;
  std::optional<double> or_else = std::nullopt;
};
inline constexpr double kMostInt = std::numeric_limits<int>::max();
inline constexpr double kMostSeed = 18'446'744'073'709'551'615.0;
inline constexpr Range kSeeds{0, kMostSeed}, kTokenIds{0, kMostInt}, kThreads{0, 512}, kDrainSeconds{0, 86'400},
    kIoThreads{1, 256};

// The options of one subcommand. Every `--some-name` also reads QUIRE_SOME_NAME and a config file's `some-name`;
// the command line wins, then the environment, then the file. `value` keeps its content as the default.
class CommandLine {
 public:
  virtual ~CommandLine() = default;
  // `name` is "--one", or "--one,--other" with a second name that counts on the command line alone.
  virtual void option(std::string_view name, std::string& value, std::string_view help) = 0;
  // Numbers outside of the range, and what is none, are refused wherever they are said, by the option's name.
  virtual void option(std::string_view name, int& value, const Range& range, std::string_view help) = 0;
  virtual void option(std::string_view name, int64_t& value, const Range& range, std::string_view help) = 0;
  virtual void option(std::string_view name, uint64_t& value, const Range& range, std::string_view help) = 0;
  virtual void option(std::string_view name, double& value, const Range& range, std::string_view help) = 0;
  virtual void option(std::string_view name, std::vector<std::string>& values, std::string_view help) = 0;  // repeats
  // Comma-separated.
  virtual void option(std::string_view name, std::vector<int>& values, const Range& range, std::string_view help) = 0;
  virtual void flag(std::string_view name, bool& value, std::string_view help) = 0;
  // Without dashes: "MODEL", which also reads QUIRE_MODEL. Optional unless `required`.
  virtual void positional(std::string_view name, std::string& value, bool required, std::string_view help) = 0;
};

inline constexpr int kExitDone = 0, kExitFailed = 1, kExitUsage = 2;

struct Command {
  std::string_view summary;
  bool hidden = false;
  std::function<std::function<int()>(CommandLine&)> declare;
};

// Runs the program; the exit code of the process.
int run_program(int argc, char** argv);

// Prints "quire: message" to stderr; kExitFailed.
int report(const Error& error);

// What a command returns: an error is reported; a body that only finds out whether all is well says so in its bool.
int exit_code(const Status& done);
int exit_code(const Result<bool>& well);

// Code::invalid, with option, range and value, unless lo ≤ value ≤ hi; NaN is in no range.
Status in_range(const char* name, double value, double lo, double hi);

}  // namespace quire
