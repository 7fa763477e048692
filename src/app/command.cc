#include "app/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <span>

#include "app/config_file.h"
#include "base/log.h"
#include "base/lower_case.h"
#include "base/process.h"

namespace quire {
namespace {

std::string environment_name(std::string_view option) {
  std::string out = "QUIRE_";
  for (char c : option.substr(2, option.find(',') - 2))  // the first of its names
    out += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string number_text(double value) {
  char text[32];
  if (value == std::trunc(value) && std::abs(value) < 1e15)
    std::snprintf(text, sizeof text, "%.0f", value);
  else
    std::snprintf(text, sizeof text, "%g", value);
  return text;
}

// What is wrong with the text as a number of this range; empty: nothing.
template <class T>
std::string refusal(const std::string& text, const Range& range) {
  T value{};
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  const bool is_number = error != std::errc::invalid_argument && end == text.data() + text.size();
  const auto number = static_cast<double>(value);
  const bool fits = number >= range.lo && number <= range.hi;
  if (is_number && error == std::errc() && (fits || (range.or_else && number == *range.or_else))) return "";
  return "must be " + number_text(range.lo) + " to " + number_text(range.hi) +
         (range.or_else ? " or " + number_text(*range.or_else) : "") + ", got " +
         (is_number ? text : "\"" + text + "\"");
}

class CliLine final : public CommandLine {
 public:
  explicit CliLine(CLI::App& app) : app_(app) {}
  void option(std::string_view name, std::string& v, std::string_view help) override { add(name, v, help); }
  void option(std::string_view name, int& v, const Range& r, std::string_view help) override { add(name, v, r, help); }
  void option(std::string_view name, int64_t& v, const Range& r, std::string_view help) override {
    add(name, v, r, help);
  }
  void option(std::string_view name, uint64_t& v, const Range& r, std::string_view help) override {
    add(name, v, r, help);
  }
  void option(std::string_view name, double& v, const Range& r, std::string_view help) override {
    add(name, v, r, help);
  }
  void option(std::string_view name, std::vector<std::string>& v, std::string_view help) override {
    add(name, v, help)->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  void option(std::string_view name, std::vector<int>& v, const Range& r, std::string_view help) override {
    check<int>(add(name, v, help)->delimiter(','), name, r);
  }
  void flag(std::string_view name, bool& v, std::string_view help) override {
    app_.add_flag(std::string(name), v, std::string(help))->envname(environment_name(name));
  }
  void positional(std::string_view name, std::string& v, bool required, std::string_view help) override {
    CLI::Option* option =
        app_.add_option(std::string(name), v, std::string(help))->envname(environment_name("--" + std::string(name)));
    if (required) required_.push_back(option);
  }

  CLI::App& app() { return app_; }
  // Asked after the config file, which may have named them.
  Status check_required() const {
    for (const CLI::Option* option : required_) {
      if (option->count() == 0) return fail(Code::invalid, option->get_name() + " is required");
    }
    return {};
  }
  std::string config;  // the file that --config names
  // A number that was refused: its option by all its names, and what is wrong with it.
  struct Refused {
    std::string names, why;
  };
  const Refused& refused() const { return refused_; }

 private:
  template <class T>
  void check(CLI::Option* option, std::string_view name, const Range& range) {
    const auto test = [this, names = std::string(name), range](const std::string& text) {
      const std::string why = refusal<T>(text, range);
      if (!why.empty()) refused_ = {names, why};
      return why;
    };
    option->check(CLI::Validator(test, ""));
  }
  template <class T>
  void add(std::string_view name, T& value, const Range& range, std::string_view help) {
    check<T>(add(name, value, help), name, range);
  }
  template <class T>
  CLI::Option* add(std::string_view name, T& value, std::string_view help) {
    return app_.add_option(std::string(name), value, std::string(help))
        ->envname(environment_name(name))
        ->capture_default_str();
  }
  CLI::App& app_;
  std::vector<CLI::Option*> required_;
  Refused refused_;
};

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// Names of options as a config file has them: without dashes, positional ones in lower case.
std::string config_key(const CLI::Option& option) {
  std::string out = option.get_name();
  out.erase(0, std::min(out.find_first_not_of('-'), out.size()));
  return lower_case(out);
}
bool is_setting(const CLI::Option& option) {
  const std::string key = config_key(option);
  return key != "help" && key != "config";
}

std::vector<std::string> keys_of(const CLI::App& command) {
  std::vector<std::string> out;
  for (const CLI::Option* option : command.get_options()) {
    if (is_setting(*option)) out.push_back(config_key(*option));
  }
  return out;
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& names, const char* dashes = "") {
  const std::string near = nearest(name, names);
  return near.empty() ? "" : "; did you mean " + (dashes + near) + "?";
}

Status bad_entry(const std::string& path, const ConfigEntry& entry, const std::string& what) {
  return fail(Code::invalid, path + ": line " + std::to_string(entry.line) + ": " + what);
}

// A key must be an option of the entry's command, or, before any section, of some command.
Status check_entry(const CLI::App& program, const std::string& path, const ConfigEntry& entry) {
  std::vector<std::string> names, keys;
  for (const CLI::App* command : commands_of(program)) {
    names.push_back(command->get_name());
    if (!entry.section.empty() && command->get_name() != entry.section) continue;
    const std::vector<std::string> own = keys_of(*command);
    keys.insert(keys.end(), own.begin(), own.end());
  }
  if (!entry.section.empty() && std::find(names.begin(), names.end(), entry.section) == names.end())
    return bad_entry(path, entry, "no command [" + entry.section + "]" + did_you_mean(entry.section, names));
  if (std::find(keys.begin(), keys.end(), entry.key) != keys.end()) return {};
  return bad_entry(path, entry, "no option \"" + entry.key + "\"" + did_you_mean(entry.key, keys));
}

// Gives `option` what the file says; the command's own section goes before what is for every command.
Status take_entries(CLI::Option& option, const std::string& path, const std::vector<ConfigEntry>& entries) {
  const std::string key = config_key(option);
  const auto own = [&](const ConfigEntry& e) { return e.key == key && !e.section.empty(); };
  const bool has_own = std::any_of(entries.begin(), entries.end(), own);
  const ConfigEntry* last = nullptr;
  for (const ConfigEntry& entry : entries) {
    if (entry.key != key || (has_own && entry.section.empty())) continue;
    if (last != nullptr && option.get_items_expected_max() == 0) return bad_entry(path, entry, key + " again");
    option.add_result(entry.value);
    last = &entry;
  }
  if (last == nullptr) return {};
  try {
    option.run_callback();
  } catch (const CLI::ParseError& error) {
    const std::string what = error.what(), name = option.get_name() + ": ";
    return bad_entry(path, *last, key + ": " + (what.starts_with(name) ? what.substr(name.size()) : what));
  }
  return {};
}

// What neither the command line nor the environment has said comes from the file.
Status apply_config(const CLI::App& program, CliLine& line) {
  if (line.config.empty()) return {};
  QR_TRY(std::vector<ConfigEntry> entries, read_config(line.config));
  for (const ConfigEntry& entry : entries) QR_TRY_VOID(check_entry(program, line.config, entry));
  const std::string& name = line.app().get_name();
  std::erase_if(entries, [&name](const ConfigEntry& e) { return !e.section.empty() && e.section != name; });
  for (CLI::Option* option : line.app().get_options()) {
    if (is_setting(*option) && option->count() == 0) QR_TRY_VOID(take_entries(*option, line.config, entries));
  }
  return {};
}

int wrong_usage(const std::string& message) {
  log_last("quire: " + message);
  return kExitUsage;
}

// What is given without a name has no dashes: `--url` is not an option that was misspelt but one that is none.
std::string meant_option(const CLI::App& command, const std::string& name) {
  std::vector<std::string> options;
  for (const CLI::Option* option : command.get_options()) {
    if (!is_setting(*option)) continue;
    if (!option->get_positional()) {
      options.push_back(config_key(*option));
    } else if (config_key(*option) == name) {
      return "; its " + option->get_name() + " is given without --" + name;
    }
  }
  return did_you_mean(name, options, "--");
}

// That name of an option ("--one" or "--one,--other") which was typed; the first where none was.
std::string typed_name(std::string_view names, std::span<char* const> arguments) {
  const std::string_view first = names.substr(0, names.find(','));
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    const auto is_it = [name](std::string_view argument) {
      return argument.starts_with(name) && (argument.size() == name.size() || argument[name.size()] == '=');
    };
    if (std::any_of(arguments.begin(), arguments.end(), is_it)) return std::string(name);
    names.remove_prefix(std::min(name.size() + 1, names.size()));
  }
  return std::string(first);
}

// What is left over names no option or, without a command, no command.
int report_extras(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (chosen.empty()) {
    std::vector<std::string> names;
    for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
    const std::vector<std::string> left = app.remaining();
    const std::string name = left.empty() ? "" : left.front();
    return wrong_usage("no command \"" + name + "\"" + did_you_mean(name, names) + " (quire --help lists them)");
  }
  const CLI::App& command = *chosen.front();
  const std::string about = "quire " + command.get_name();
  const std::vector<std::string> left = command.remaining();
  const auto at = std::find_if(left.begin(), left.end(), [](const std::string& s) { return s.starts_with("--"); });
  if (at == left.end()) return wrong_usage(about + ": too much: \"" + (left.empty() ? "" : left.front()) + "\"");
  const std::string name = at->substr(2, at->find('=') == std::string::npos ? at->npos : at->find('=') - 2);
  return wrong_usage(about + " has no option --" + name + meant_option(command, name));
}

void print_option_table(const CLI::App& app) {
  std::printf(
      "# Options\n\nGenerated by `quire options`. Every option `--some-name` also reads `QUIRE_SOME_NAME` and, "
      "with\n`--config FILE`, the key `some-name`; the command line wins, then the environment, then the file.\n");
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* a) { return !a->get_group().empty(); })) {
    std::printf("\n## quire %s\n\n%s\n\n| option | default | meaning |\n|---|---|---|\n", command->get_name().c_str(),
                command->get_description().c_str());
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_name() == "--help") continue;
      std::printf("| `%s` | %s | %s |\n", option->get_name().c_str(), option->get_default_str().c_str(),
                  option->get_description().c_str());
    }
  }
}

// The command that was chosen, and what to run.
struct Chosen {
  CliLine* line = nullptr;
  std::function<int()> body;
};

void add_commands(CLI::App& app, std::vector<std::unique_ptr<CliLine>>& lines, Chosen& chosen) {
  for (const std::string& name : Registry<Command>::get().names()) {
    const Command& command = *Registry<Command>::get().find(name);
    CLI::App* sub = app.add_subcommand(name, std::string(command.summary));
    if (command.hidden) sub->group("");
    CliLine* line = lines.emplace_back(std::make_unique<CliLine>(*sub)).get();
    line->option("--config", line->config, "read options from this file (key = value lines, [command] sections)");
    std::function<int()> body = command.declare(*line);
    sub->callback([&chosen, line, body] { chosen = {line, body}; });
  }
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Quire: an LLM inference and serving engine", "quire");
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", std::string("quire ") + QR_VERSION);
  Chosen chosen;
  std::vector<std::unique_ptr<CliLine>> lines;
  add_commands(app, lines, chosen);
  CLI::App* table = app.add_subcommand("options", "print the table of all options as Markdown")->group("");
  table->callback([&] {
    chosen.body = [&app] {
      print_option_table(app);
      return kExitDone;
    };
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    return report_extras(app);
  } catch (const CLI::ParseError& error) {
    for (const auto& line : lines) {
      const CliLine::Refused& refused = line->refused();
      if (refused.why.empty()) continue;
      return wrong_usage(typed_name(refused.names, {argv, static_cast<size_t>(argc)}) + " " + refused.why);
    }
    return app.exit(error) == 0 ? kExitDone : kExitUsage;  // help and version are "errors" of code 0
  }
  if (!chosen.body) return wrong_usage("no command: quire --help lists them");
  if (chosen.line != nullptr) {
    Status ready = apply_config(app, *chosen.line);
    if (ready) ready = chosen.line->check_required();
    if (!ready) return wrong_usage(ready.error().message);
  }
  return chosen.body();
}

}  // namespace

int report(const Error& error) {
  log_last("quire: " + error.message);
  return kExitFailed;
}

int exit_code(const Status& done) { return done ? kExitDone : report(done.error()); }

int exit_code(const Result<bool>& well) {
  if (!well) return report(well.error());
  return *well ? kExitDone : kExitFailed;
}

Status in_range(const char* name, double value, double lo, double hi) {
  if (value >= lo && value <= hi) return {};
  return fail(Code::invalid, std::string(name) + " must be " + number_text(lo) + " to " + number_text(hi) + ", got " +
                                 number_text(value));
}

int run_program(int argc, char** argv) {
  settle_process();
  try {
    return parse_and_run(argc, argv);
  } catch (const std::exception& error) {  // out of memory and the like; ours are Results
    log_last(std::string("quire: ") + error.what());
    return kExitFailed;
  }
}

}  // namespace quire
