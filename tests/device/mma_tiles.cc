// mma_tiles [TILES [SEED]]: whether the tensor cores of the device that there is sum as their twin does; 1,000,000
// tiles. On compute capability 9.0 also whether wgmma sums as mma does, in products of as many tiles or a few more.
// Exits 1 where something differs, 2 where nothing could be compared.
#include <charconv>
#include <chrono>
#include <cstring>

#include "tests/device/mma_check.h"
#include "tests/device/wgmma_check.h"

namespace quire {
namespace {

template <class T>
bool read(const char* text, T& out) {
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, out);
  return error == std::errc() && at == end && out > 0;
}

int main(int n, char** arguments) {
  MmaCheck check{.n_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()))};
  if (n > 3 || (n > 1 && !read(arguments[1], check.n_tiles)) || (n > 2 && !read(arguments[2], check.seed))) {
    std::fprintf(stderr, "mma_tiles [TILES [SEED]]: whole numbers above 0\n");
    return 2;
  }
  const auto runtime = cuda::open_runtime();
  if (!runtime) {
    std::fprintf(stderr, "%s\n", runtime.error().message.c_str());
    return 2;
  }
  const std::string device = (*runtime)->describe();
  if (device.find("compute capability 8.") != std::string::npos) check.core = emulated::kAmpereCore;
  const auto begin = std::chrono::steady_clock::now();
  const MmaFindings found = check_mma(**runtime, check);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%s, seed %" PRIu64 "\n%s%.1f s with %d threads\n", device.c_str(), check.seed, found.text.c_str(),
              seconds.count(), check.n_threads);
  if ((*runtime)->size().major != 9) return found.n_equal == found.n_tiles ? 0 : 1;
  constexpr int64_t kTilesOfProduct = 7168;
  const auto of_wgmma = check_wgmma(**runtime, {.n_products = (check.n_tiles + kTilesOfProduct - 1) / kTilesOfProduct,
                                                .seed = check.seed,
                                                .n_threads = check.n_threads});
  if (!of_wgmma) {
    std::fprintf(stderr, "%s\n", of_wgmma.error().message.c_str());
    return 2;
  }
  std::printf("%s", of_wgmma->text.c_str());
  return found.n_equal == found.n_tiles && of_wgmma->n_as_twin == of_wgmma->n && of_wgmma->n_as_mma == of_wgmma->n ? 0
                                                                                                                   : 1;
}

}  // namespace
}  // namespace quire

int main(int n, char** arguments) { return quire::main(n, arguments); }
