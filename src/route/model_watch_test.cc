// Models that come, change and go while somebody looks.
#include "route/model_watch.h"

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>

#include "http/testing.h"

namespace quire {
namespace {

LocalModel model(std::string name, int64_t bytes) {
  LocalModel out;
  out.name = std::move(name);
  out.bytes = bytes;
  return out;
}

// A folder that the test writes: each look has to be allowed.
class ModelWatched : public testing::Test {
 protected:
  void start(std::vector<LocalModel> models) {
    LocalOptions options;
    options.models = models;
    options.reread_ms = 1;
    options.reread = [this]() -> Result<std::vector<LocalModel>> {
      const std::lock_guard lock(mu_);
      ++n_looks_;
      if (!now_) return fail(Code::io, "the folder is gone");
      return *now_;
    };
    options.show = [this](const LocalModel& one) {
      const std::lock_guard lock(mu_);
      ++n_shown_;
      return one.name + " of " + std::to_string(one.bytes);
    };
    now_ = std::move(models);
    watch_ = std::make_unique<ModelWatch>(options, [this](const std::vector<LocalModel>& told) {
      const std::lock_guard lock(mu_);
      told_ = told;
    });
  }
  void set(std::optional<std::vector<LocalModel>> models) {
    const std::lock_guard lock(mu_);
    now_ = std::move(models);
    n_looks_ = 0;
  }
  bool comes_to(const std::string& shown) {
    return eventually([&] { return seen() == shown; });
  }
  std::string seen() {
    const std::lock_guard lock(mu_);
    std::string out;
    for (const LocalModel& one : told_) out += one.shown + "; ";
    return out;
  }
  void look(int n) {
    EXPECT_TRUE(eventually([&] {
      const std::lock_guard lock(mu_);
      return n_looks_ >= n;
    }));
  }

  std::mutex mu_;
  std::optional<std::vector<LocalModel>> now_;
  int n_looks_ = 0, n_shown_ = 0;
  std::vector<LocalModel> told_;
  std::unique_ptr<ModelWatch> watch_;  // last: its thread uses the others
};

TEST_F(ModelWatched, WhatIsThereIsShownOnceAndComesAndGoes) {
  start({model("a", 1)});
  EXPECT_TRUE(comes_to("a of 1; "));
  set({{model("a", 1), model("b", 2)}});
  EXPECT_TRUE(comes_to("a of 1; b of 2; "));
  set({{model("b", 2)}});
  EXPECT_TRUE(comes_to("b of 2; "));
  set({{model("b", 3)}});
  EXPECT_TRUE(comes_to("b of 3; "));
  set({std::vector<LocalModel>{}});
  EXPECT_TRUE(comes_to(""));
  const std::lock_guard lock(mu_);
  EXPECT_EQ(n_shown_, 3);
}

TEST_F(ModelWatched, WhatCannotBeReadStays) {
  start({model("a", 1)});
  EXPECT_TRUE(comes_to("a of 1; "));
  set(std::nullopt);
  look(5);
  EXPECT_EQ(seen(), "a of 1; ");
  set({{model("b", 2)}});
  EXPECT_TRUE(comes_to("b of 2; "));
}

TEST(ModelWatch, WhatThrowsIsALookThatFailed) {
  std::mutex mu;
  int n_looks = 0, n_shown = 0;
  std::vector<LocalModel> told;
  LocalOptions options;
  options.models = {model("a", 1)};
  options.reread_ms = 1;
  options.reread = [&]() -> Result<std::vector<LocalModel>> {
    const std::lock_guard lock(mu);
    if (++n_looks < 4) throw std::runtime_error("the folder went");
    return std::vector<LocalModel>{model("a", n_looks < 9 ? 1 : 2), model("b", 2)};
  };
  options.show = [&](const LocalModel& one) {
    const std::lock_guard lock(mu);
    if (one.name == "a" && one.bytes == 1) {
      ++n_shown;
      throw std::runtime_error("the file is broken");
    }
    return one.name;
  };
  const ModelWatch watch(options, [&](std::vector<LocalModel> models) {
    const std::lock_guard lock(mu);
    told = std::move(models);
  });
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mu);
    return told.size() == 2 && told[0].shown == "a" && told[1].shown == "b";
  }));
  const std::lock_guard lock(mu);
  EXPECT_EQ(n_shown, 1) << "a file that says nothing is read again when it is another one";
}

// What could not be read is read again when that may have changed, though the file is the same.
TEST(ModelWatch, WhatToldNothingIsReadAgainWhenItsPermissionsChange) {
  std::mutex mu;
  int n_looks = 0, n_asked = 0;
  std::vector<LocalModel> told;
  LocalOptions options;
  options.models = {model("a", 1)};
  options.reread_ms = 1;
  options.reread = [&]() -> Result<std::vector<LocalModel>> {
    const std::lock_guard lock(mu);
    std::vector<LocalModel> out{model("a", 1)};
    out[0].changed_ns = ++n_looks < 5 ? 0 : n_looks < 10 ? 7 : 8;
    return out;
  };
  options.show = [&](const LocalModel& one) {
    const std::lock_guard lock(mu);
    ++n_asked;
    return one.changed_ns < 8 ? "" : one.name;
  };
  const ModelWatch watch(options, [&](std::vector<LocalModel> models) {
    const std::lock_guard lock(mu);
    told = std::move(models);
  });
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mu);
    return n_looks > 14;
  }));
  const std::lock_guard lock(mu);
  EXPECT_EQ(n_asked, 3);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].shown, "a");
}

// A file that is being written is another one at each look.
TEST(ModelWatch, WhatChangesFromLookToLookIsNotTakenYet) {
  std::mutex mu;
  int n_looks = 0;
  std::vector<std::vector<int64_t>> told;
  LocalOptions options;
  options.models = {model("old", 1)};
  options.reread_ms = 1;
  options.reread = [&]() -> Result<std::vector<LocalModel>> {
    const std::lock_guard lock(mu);
    ++n_looks;
    return std::vector<LocalModel>{model("old", std::min(n_looks, 6)), model("new", std::min(n_looks, 4))};
  };
  const ModelWatch watch(options, [&](const std::vector<LocalModel>& models) {
    const std::lock_guard lock(mu);
    std::vector<int64_t>& bytes = told.emplace_back();
    for (const LocalModel& one : models) bytes.push_back(one.bytes);
  });
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mu);
    return n_looks > 9;
  }));
  const std::lock_guard lock(mu);
  EXPECT_EQ(told, (std::vector<std::vector<int64_t>>{{1, 4}, {6, 4}}));
}

TEST(ModelWatch, WhatOneLookAloneMissesStays) {
  std::mutex mu;
  int n_looks = 0;
  std::vector<size_t> told;
  LocalOptions options;
  options.models = {model("a", 1), model("b", 2)};
  options.reread_ms = 1;
  options.reread = [&]() -> Result<std::vector<LocalModel>> {
    const std::lock_guard lock(mu);
    ++n_looks;
    if (n_looks % 2 == 1 && n_looks < 8) return std::vector<LocalModel>{};
    if (n_looks < 12) return std::vector<LocalModel>{model("a", 1), model("b", 2)};
    return std::vector<LocalModel>{model("b", 2)};
  };
  const ModelWatch watch(options, [&](const std::vector<LocalModel>& models) {
    const std::lock_guard lock(mu);
    told.push_back(models.size());
  });
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mu);
    return n_looks > 16;
  }));
  const std::lock_guard lock(mu);
  EXPECT_EQ(told, (std::vector<size_t>{1}));
}

}  // namespace
}  // namespace quire
