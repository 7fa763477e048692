// For this room's tests only: counts what golden files were compared with, and prints one table at the end of the run,
// so that "all match" comes with of how many. tools/run_tests.py repeats the lines that begin with "golden: ".
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>

namespace quire {

class GoldenTally final : public testing::Environment {
 public:
  // The one of this program; GoogleTest owns it.
  static GoldenTally& get() {
    static auto* const tally =
        static_cast<GoldenTally*>(testing::AddGlobalTestEnvironment(new GoldenTally));  // NOLINT: GoogleTest deletes it
    return *tally;
  }

  void add(const std::string& kind, const std::string& file, bool matched) {
    Row& row = rows_[kind];
    row.files.insert(file);
    ++row.n;
    row.n_matched += matched ? 1 : 0;
  }

  void TearDown() override {
    for (const auto& [kind, row] : rows_) {
      std::printf("golden: %-52s %3zu files %6zu of %6zu match\n", kind.c_str(), row.files.size(), row.n_matched,
                  row.n);
    }
  }

 private:
  struct Row {
    std::set<std::string> files;
    size_t n = 0, n_matched = 0;
  };
  std::map<std::string, Row> rows_;
};

// Before main, because environments that are added while tests run come too late.
inline const bool kGoldenTallyIsThere = (GoldenTally::get(), true);

// got == want, counted under `kind` as one comparison of `file`.
template <class T>
void expect_golden(
    const std::string& kind, const std::string& file, const T& got, const T& want, const std::string& what) {
  GoldenTally::get().add(kind, file, got == want);
  EXPECT_EQ(got, want) << file << ": " << what;
}

}  // namespace quire
