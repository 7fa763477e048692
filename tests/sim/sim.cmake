# The simulation: sim_test (what runs on every commit) and sim (any number of seeds, by hand). They need the engine and
# what is below it, nothing above; what a router knows of engines is compared with them, so sim_test needs route too.
file(GLOB sim_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/sim/*.cc)
set(sim_tests ${sim_sources})
list(FILTER sim_tests INCLUDE REGEX "_test\\.cc$")
list(FILTER sim_sources EXCLUDE REGEX "(_test|_main)\\.cc$")

add_library(sim_world OBJECT ${sim_sources})
target_include_directories(sim_world PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(sim_world PUBLIC quire_options)
quire_use_pch(sim_world quire_pch)

add_executable(sim_test ${sim_tests} $<TARGET_OBJECTS:sim_world>)
quire_link(sim_test "engine;route")
quire_tests(sim_test)
target_include_directories(sim_test PRIVATE ${CMAKE_SOURCE_DIR})
add_test(NAME sim COMMAND sim_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})

add_executable(sim ${CMAKE_CURRENT_SOURCE_DIR}/sim/sim_main.cc $<TARGET_OBJECTS:sim_world>)
quire_link(sim engine)
target_link_libraries(sim PRIVATE quire_options)
target_include_directories(sim PRIVATE ${CMAKE_SOURCE_DIR})

# sim_mutants_test: the same world over an engine with bugs (sim/mutants.txt), to see them found. The files with bugs take
# the place of their originals' objects.
set(mutants_list ${CMAKE_CURRENT_SOURCE_DIR}/sim/mutants.txt)
set(mutants_dir ${CMAKE_CURRENT_BINARY_DIR}/mutants)
file(STRINGS ${mutants_list} mutated REGEX "^src/")
list(REMOVE_DUPLICATES mutated)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${mutants_list})
set(mutants_sources "")
set(mutants_originals "")
set(mutated_names "")
foreach(file IN LISTS mutated)
  get_filename_component(name ${file} NAME)
  list(APPEND mutants_sources ${mutants_dir}/${name})
  list(APPEND mutants_originals ${CMAKE_SOURCE_DIR}/${file})
  list(APPEND mutated_names ${name})
endforeach()
string(REPLACE "." "\\." mutated_regex "${mutated_names}")
string(REPLACE ";" "|" mutated_regex "/(${mutated_regex})\\.o$")
find_program(PYTHON3 python3 REQUIRED)
add_custom_command(OUTPUT ${mutants_sources} ${mutants_dir}/mutants.h
  COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tools/make_mutants.py --list ${mutants_list} --out ${mutants_dir}
  DEPENDS ${CMAKE_SOURCE_DIR}/tools/make_mutants.py ${mutants_list} ${mutants_originals}
  VERBATIM)
add_executable(sim_mutants_test ${CMAKE_CURRENT_SOURCE_DIR}/sim/mutants/mutants_test.cc ${mutants_sources}
  ${mutants_dir}/mutants.h $<TARGET_OBJECTS:sim_world>)
target_include_directories(sim_mutants_test PRIVATE ${CMAKE_SOURCE_DIR} ${mutants_dir})
quire_link_replacing(sim_mutants_test engine ${mutated_regex})
quire_tests(sim_mutants_test)
add_test(NAME sim_mutants COMMAND sim_mutants_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
