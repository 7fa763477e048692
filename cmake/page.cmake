# The files of src/serve/page become string literals in the program, so that the page needs nothing beside it.
function(quire_generate_page)
  set(entries "")
  set(folder ${CMAKE_SOURCE_DIR}/src/serve/page)
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${folder} ${folder}/*.html ${folder}/*.css ${folder}/*.js)
  foreach(name IN LISTS files)
    set(file ${folder}/${name})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    string(APPEND entries "    {\"${name}\", R\"QUIREPAGE(${text})QUIREPAGE\"},\n")
  endforeach()
  set(path ${CMAKE_BINARY_DIR}/generated/serve/page_files.cc)
  quire_write(${path} "// Generated from src/serve/page.
#include \"serve/page.h\"

namespace quire {
namespace {
const PageFile kFiles[] = {
${entries}};
}  // namespace

std::span<const PageFile> page_files() { return kFiles; }
}  // namespace quire
")
  set(QR_GENERATED_serve ${path} CACHE INTERNAL "")
endfunction()

# src/hub/package.py likewise.
function(quire_generate_package_script)
  set(file ${CMAKE_SOURCE_DIR}/src/hub/package.py)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  set(path ${CMAKE_BINARY_DIR}/generated/hub/package_script.cc)
  quire_write(${path} "// Generated from src/hub/package.py.
#include \"hub/package_script.h\"

namespace quire {
std::string_view package_script() { return R\"QUIRESCRIPT(${text})QUIRESCRIPT\"; }
}  // namespace quire
")
  set(QR_GENERATED_hub ${path} CACHE INTERNAL "")
endfunction()
