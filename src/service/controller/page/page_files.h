// The files of the web page: web/dist, built into the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longhaul::service {

struct PageFile {
  const char* path;  // of the URL: "/page.js"
  const char* media_type;
  std::string_view bytes;
};

const std::vector<PageFile>& PageFiles();

}  // namespace longhaul::service
