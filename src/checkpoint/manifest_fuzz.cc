// Any text as a manifest, as it is and with its hash mended; an accepted one is written the same.

#include <cstdint>
#include <cstdio>
#include <string>

#include "base/check.h"
#include "base/hash.h"
#include "checkpoint/manifest.h"

using namespace longhaul;
using namespace longhaul::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  (void)DecodeManifest(text).ok();

  constexpr size_t kHashLine = 25;
  if (text.size() >= kHashLine) text.resize(text.size() - kHashLine);
  char line[32];
  std::snprintf(line, sizeof(line), "xxh3-64:%016llx\n",
                static_cast<unsigned long long>(Hash64(text)));
  text += line;
  const Result<Manifest> manifest = DecodeManifest(text);
  if (!manifest.ok()) return 0;
  const std::string encoded = EncodeManifest(*manifest);
  // One with the key of versions before 0.1 gets the present key.
  const bool is_old = text.find("\n\"epoch\": ") != std::string::npos;
  if (is_old) {
    const Result<Manifest> again = DecodeManifest(encoded);
    CHECK(again.ok() && *again == *manifest);
  } else {
    CHECK(encoded == text);
  }
  return 0;
}
