use super::*;

fn words(line: &str) -> Words {
    let line: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    words::read(&line, &GET).map_err(|failure| failure.text).expect("read")
}

fn layout(line: &str) -> Layout {
    Layout::parse(line).map_err(|failure| failure.text).expect(line)
}

/// Published output of Lustre 2.12 and later (`lfs getstripe testfile` in a demonstration of a
/// Lustre cluster); the object's number is ours.
#[test]
fn a_plain_file_reads_as_on_lustre() {
    assert_eq!(
        of_file(&layout("-c 1 -i 0"), 0, 2, &words("")),
        "lmm_stripe_count:  1\n\
         lmm_stripe_size:   1048576\n\
         lmm_pattern:       raid0\n\
         lmm_layout_gen:    0\n\
         lmm_stripe_offset: 0\n\
         \tobdidx\t\t objid\t\t objid\t\t group\n\
         \t     0\t             2\t          0x2\t             0\n\n"
    );
    let quiet = of_file(&layout("-c 2 -i 3"), 0, 2, &words("-q"));
    assert_eq!(quiet.lines().count(), 4, "{quiet}");
    assert!(quiet.starts_with("\tobdidx") && quiet.contains("\t     4\t"), "{quiet}");
}

/// Published output of `lfs getstripe -d` on several clusters.
#[test]
fn a_directory_reads_as_on_lustre() {
    assert_eq!(
        of_directory(&layout("-c 128"), &words("-d")),
        "stripe_count:  128 stripe_size:   1048576 pattern:       raid0 stripe_offset: -1\n"
    );
    assert_eq!(
        of_directory(&layout("-p ddn_hdd"), &words("-d")),
        "stripe_count:  1 stripe_size:   1048576 pattern:       raid0 stripe_offset: -1 \
         pool:          ddn_hdd\n"
    );
    assert_eq!(
        of_directory(&layout("-E 64k -L mdt -c 0 -E eof -c -1"), &words("-d")),
        "  lcm_layout_gen:    0\n  lcm_mirror_count:  1\n  lcm_entry_count:   2\n    \
         lcme_id:             N/A\n    lcme_mirror_id:      N/A\n    lcme_flags:          0\n    \
         lcme_extent.e_start: 0\n    lcme_extent.e_end:   65536\n      \
         stripe_count:  1       stripe_size:   1048576       pattern:       mdt       \
         stripe_offset: -1\n\n    \
         lcme_id:             N/A\n    lcme_mirror_id:      N/A\n    lcme_flags:          0\n    \
         lcme_extent.e_start: 65536\n    lcme_extent.e_end:   EOF\n      \
         stripe_count:  -1       stripe_size:   1048576       pattern:       raid0       \
         stripe_offset: -1\n\n"
    );
}

/// Published output of FSx for Lustre, whose files have a composite layout.
#[test]
fn a_composite_file_reads_as_on_lustre() {
    let text = of_file(&layout("-E 100M -c 1 -E -1 -c 8"), 5, 2, &words(""));
    assert!(
        text.starts_with(
            "  lcm_layout_gen:    1\n  lcm_mirror_count:  1\n  lcm_entry_count:   2\n    \
             lcme_id:             1\n    lcme_mirror_id:      0\n    lcme_flags:          \
             init\n    lcme_extent.e_start: 0\n    lcme_extent.e_end:   104857600\n      \
             lmm_stripe_count:  1\n      lmm_stripe_size:   1048576\n      lmm_pattern:       \
             raid0\n      lmm_layout_gen:    0\n      lmm_stripe_offset: 0\n      \
             lmm_objects:\n      - 0: { l_ost_idx: 0, l_fid: [0x100000000:0x2:0x0] }\n\n    \
             lcme_id:             2\n"
        ),
        "{text}"
    );
    assert!(text.contains("lcme_flags:          0\n"), "{text}");
}

/// lfs-getstripe(1): "the stripe count of the last initialized component".
#[test]
fn one_value_comes_alone_and_several_with_labels() {
    let layout = layout("-E 1M -c 1 -E -1 -c 4 -S 2M");
    assert_eq!(of_file(&layout, 0, 2, &words("-c")), "1\n");
    assert_eq!(of_file(&layout, 2 << 20, 2, &words("-c")), "4\n");
    assert_eq!(of_directory(&layout, &words("-S")), "2097152\n");
    assert_eq!(of_file(&layout, 0, 2, &words("--component-count")), "2\n");
    let both = of_file(&layout, 2 << 20, 2, &words("-c -S"));
    assert_eq!(both, "lmm_stripe_count:  4\nlmm_stripe_size:   2097152\n");
}

#[test]
fn set_makes_files_and_get_shows_them() {
    let dir = tempfile::tempdir().expect("dir");
    let path = |name: &str| dir.path().join(name).into_os_string();
    let mut answer = Answer { command: "setstripe", out: Vec::new(), first: None };
    let mut call = |line: &[&str], name: &str| {
        let mut line: Vec<OsString> = line.iter().map(OsString::from).collect();
        line.push(path(name));
        set(&line, &mut answer).map_err(|failure| failure.errno)?;
        answer.first.take().map_or(Ok(()), Err)
    };
    assert_eq!(call(&["-c", "4", "-S", "4M"], "f"), Ok(()));
    assert_eq!(call(&["-c", "1"], "f"), Err(Errno::EXIST));
    assert_eq!(call(&["-N2"], "g"), Err(Errno::OPNOTSUPP));
    fs::create_dir(path("d")).expect("mkdir");
    assert_eq!(call(&["-c", "7"], "d"), Ok(()));
    fs::write(Path::new(&path("d")).join("x"), "x").expect("write");
    let shown = |name: &str, options: &str| {
        let mut line: Vec<OsString> = options.split_whitespace().map(OsString::from).collect();
        line.push(path(name));
        let mut answer = Answer { command: "getstripe", out: Vec::new(), first: None };
        get(&line, &mut answer).map_err(|failure| failure.text).expect("shown");
        String::from_utf8(answer.out).expect("text")
    };
    assert_eq!(shown("f", "-c"), "4\n");
    assert_eq!(shown("d", "-c"), "7\n7\n");
    let text = shown("d", "");
    let inner = format!("{}/x\n", Path::new(&path("d")).display());
    assert!(text.contains(&inner) && text.contains("lmm_stripe_count:  7\n"), "{text}");
    assert_eq!(call(&["-d"], "d"), Ok(()));
    assert_eq!(call(&["-d"], "d"), Ok(()), "twice");
    assert_eq!(shown("d/x", "-c"), "1\n");
}
