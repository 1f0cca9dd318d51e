# What `make install` puts in place works from any directory, with the environment's own Perl modules, and
# under plackup; nothing of it looks back at the checkout.
use strict;
use warnings;
use lib 't/lib';

use Config;
use Cwd qw(getcwd);
use File::Find qw(find);
use File::Temp qw(tempdir);
use Howdah::Test::File qw(read_if_any);
use HTTP::Tiny;
use Howdah::Test::Command qw(run_command);
use Test::More;
use Test::TCP qw(empty_port wait_port);

my $checkout = getcwd;
my $top      = tempdir(CLEANUP => 1);
my $prefix   = "$top/usr";
my $own      = "$prefix/lib/howdah/perl5";
my $perl     = $Config{perlpath};

# prove -b has put the checkout's blib here; the installed files must do without it.
my @outside = grep { !m{\bblib\b} } split /:/, $ENV{PERL5LIB} // '';
$ENV{PERL5LIB} = join ':', @outside;
delete $ENV{HOWDAH_BIN};

sub file {
    my ($name, $content) = @_;
    open my $out, '>', $name or die "cannot write $name: $!";
    print {$out} $content;
    close $out or die $!;
    return $name;
}

# Starts a server in another directory, asks it once, and stops it: (body, exit status).
sub ask {
    my ($port, @command) = @_;
    my $pid = fork // die "cannot fork: $!";
    if (!$pid) {
        chdir "$top/elsewhere" or die $!;
        open STDERR, '>', "$top/log" or die $!;
        open STDOUT, '>&', \*STDERR or die $!;
        exec {$command[0]} @command or die "cannot run $command[0]: $!";
    }
    my $up   = eval { wait_port({port => $port, max_wait => 10}); 1 };
    my $body = $up ? HTTP::Tiny->new->get("http://127.0.0.1:$port/")->{content} : '';
    kill TERM => $pid;
    waitpid $pid, 0;
    return ($body, $? >> 8);
}

mkdir "$top/elsewhere" or die $!;
mkdir "$top/modules" or die $!;
file("$top/modules/OfTheApp.pm", 'package OfTheApp; sub greeting { "found by PERL5LIB" } 1;');
my $app = file("$top/app.psgi", 'use OfTheApp; sub { [200, [], [OfTheApp::greeting()]] }');

subtest 'make install puts everything below PREFIX' => sub {
    my ($status, $out, $err) = run_command('make', '--no-print-directory', 'install', "PREFIX=$prefix");
    is $status, 0 or BAIL_OUT("make install failed: $out$err");
    my $arch  = "$own/$Config{version}/$Config{archname}";
    my @files = (
        'bin/howdah',
        'share/man/man1/howdah.1',
        'share/bash-completion/completions/howdah',
        'share/zsh/site-functions/_howdah',
        'share/fish/vendor_completions.d/howdah.fish',
        (map { s{^docs}{share/doc/howdah}r } glob 'docs/*.md'),
        (map { "share/doc/howdah/$_" } glob 'deploy/* examples/*.psgi examples/kit/*.cgi'),
    );
    cmp_ok scalar(grep { /share.doc/ } @files), '>', 15, 'pages that messages name';
    ok -s "$prefix/$_", $_ for @files;
    ok -x "$prefix/bin/howdah", 'the program can be run';
    ok -s "$arch/$_", $_ for 'Howdah.pm', 'Howdah/Kit.pm', 'Howdah/Kit/App.pm', 'Howdah/Templates/Engine.pm',
        'Plack/Handler/Howdah.pm', 'auto/Howdah/XS/XS.so';
    like $out, qr/PERL5LIB=\Q$own\E plackup -s Howdah/, 'and it says how plackup finds it';
};

subtest 'the pages lead to what is installed' => sub {
    my ($links, @broken) = 0;
    for my $page (glob "$prefix/share/doc/howdah/{,decisions/,deploy/}*.md") {
        my ($dir) = $page =~ m{(.*)/};
        for my $to (read_if_any($page) =~ /\]\((?!\w+:|#)([^)#]+)/g) {
            next if $to =~ m{^(?:\.\./)+t/};    # a test is for who has the source
            $links++;
            push @broken, "$page: $to" if !-e "$dir/$to";
        }
    }
    cmp_ok $links, '>', 100, 'links';
    is "@broken", '', 'all of them';
    like read_if_any("$prefix/share/doc/howdah/deploy/howdah\@.service"), qr{^ExecStart=\Q$prefix\E/bin/howdah serve$}m,
        'the unit starts what is installed';
    my @others = grep { !((stat)[2] & oct 4) } glob "$prefix/share/doc/howdah/{,*/,*/*/}*";
    is "@others", '', 'and everyone may read it';
};

# What may be run by whoever installs, without a Rust toolchain.
sub path_without_cargo {
    my $dir = "$top/bin-without-cargo";
    mkdir $dir or die $!;
    for my $program (map { glob "$_/*" } grep { -d } split /:/, $ENV{PATH}) {
        (my $name = $program) =~ s{.*/}{};
        symlink $program, "$dir/$name" if $name !~ /^(?:cargo|rustc|rustup)/;
    }
    return $dir;
}

subtest 'what one user has built another installs, without cargo' => sub {
    my @clean = ('env', '-i', 'PATH=' . path_without_cargo(), "HOME=$top/nothing");
    is + (run_command(@clean, 'which', 'cargo'))[0], 1, 'there is no cargo';
    my @users = ([]);
    push @users, ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
        if $> == 0 && grep { -x "$_/setpriv" } split /:/, $ENV{PATH};
    for my $user (@users) {
        my $to = "$top/by-" . @$user;
        mkdir $to;
        chmod 0777, $to or die $!;
        chmod 0755, $top or die $!;
        my ($status, $out, $err) = run_command(@$user, @clean, 'make', '--no-print-directory', 'install', "PREFIX=$to");
        is $status, 0, @$user ? 'somebody else' : 'the same' or diag "$out$err";
        is + (run_command("$to/bin/howdah", '--version'))[0], 0, '... and it runs';
    }
};

subtest 'debug information lies apart, where debuggers look for it' => sub {
    for my $tool (qw(objcopy readelf nm addr2line)) {
        plan skip_all => "there is no $tool" if !grep { -x "$_/$tool" } split /:/, $ENV{PATH};
    }
    my $module = "$own/$Config{version}/$Config{archname}/auto/Howdah/XS";
    for my $file ("$prefix/bin/howdah", "$module/XS.so") {
        my $sections = (run_command('readelf', '-SW', $file))[1];
        unlike $sections, qr/\.debug_info/, $file;
        like $sections, qr/\.gnu_debuglink/;
        (my $apart = $file) =~ s{([^/]+)$}{.debug/$1.debug};
        like + (run_command('readelf', '-SW', $apart))[1], qr/\.debug_line/, $apart;
    }
    cmp_ok -s "$prefix/bin/howdah", '<', 0.6 * -s 'bin/howdah', 'the program is much smaller';
    cmp_ok -s "$module/XS.so", '<', 1_000_000, 'and so is the module';
    my ($main)  = (run_command('nm', "$prefix/bin/howdah"))[1] =~ /^0*([0-9a-f]+) t \S*6howdah4main/m;
    my ($place) = (run_command('addr2line', '-e', "$prefix/bin/howdah", $main))[1];
    like $place, qr{crates/howdah/src/main\.rs:\d+}, 'addresses have lines';
};

subtest 'howdah serves from any directory, with modules of PERL5LIB' => sub {
    local $ENV{PERL5LIB} = join ':', "$top/modules", @outside;
    my $port = empty_port();
    my ($body, $status) = ask($port, "$prefix/bin/howdah", '-l', "127.0.0.1:$port", '--workers', 1, $app);
    is $body, 'found by PERL5LIB' or diag read_if_any("$top/log");
    is $status, 0;
};

subtest 'through a symbolic link, with --perl and -I, without perl in PATH' => sub {
    symlink "$prefix/bin/howdah", "$top/linked" or die $!;
    local $ENV{PATH} = "$top/nothing";
    my $port    = empty_port();
    my @options = ('-l', "127.0.0.1:$port", '--workers', 1, '--perl', $perl, "-I$top/modules");
    my ($body)  = ask($port, "$top/linked", @options, $app);
    is $body, 'found by PERL5LIB' or diag read_if_any("$top/log");
};

subtest 'plackup -s Howdah' => sub {
    local $ENV{PERL5LIB} = join ':', $own, "$top/modules", @outside;
    my ($plackup) = grep { -x } map { "$_/plackup" } split /:/, $ENV{PATH};
    plan skip_all => 'there is no plackup in PATH' if !$plackup;
    my $port = empty_port();
    my ($body) = ask(
        $port, $perl, $plackup, '-s', 'Howdah', '-E', 'deployment', '-o', '127.0.0.1', '-p', $port, '--workers', 1,
        $app
    );
    is $body, 'found by PERL5LIB' or diag read_if_any("$top/log");
};

subtest 'modules that this perl cannot load: a message with the way out' => sub {
    mkdir "$top/empty" or die $!;
    local $ENV{HOWDAH_PERL5LIB} = "$top/empty";
    my ($status, undef, $err) = run_command("$prefix/bin/howdah", 'check', '-e', 'sub {}');
    is $status, 1;
    like $err, qr/cannot load Howdah's Perl modules \(looked for in \Q$top\E\/empty\)/;
    like $err, qr/perl Build\.PL/;
    like $err, qr/--perl/;
};

subtest 'a missing perl is named' => sub {
    local $ENV{PATH} = "$top/nothing";
    my ($status, undef, $err) = run_command("$prefix/bin/howdah", 'check', '-e', 'sub {}');
    is $status, 1;
    like $err, qr/there is no perl in PATH \(.*\): install perl, or name one by --perl/;
};

subtest 'DESTDIR stages the same tree, for everyone' => sub {
    my $stage = "$top/stage";
    my $umask = umask oct 77;
    my ($status, $out, $err) =
        run_command('make', '--no-print-directory', 'install', 'PREFIX=/opt/howdah', "DESTDIR=$stage");
    is $status, 0 or diag "$out$err";
    ok -x "$stage/opt/howdah/bin/howdah", 'program';
    ok -s "$stage/opt/howdah/share/doc/howdah/cgi.md", 'pages';
    ok -s "$stage/opt/howdah/lib/howdah/perl5/$Config{version}/$Config{archname}/Howdah.pm", 'modules';
    ok !-e '/opt/howdah', 'and nothing outside of it';
    umask $umask;
    my @closed;
    find(sub { push @closed, $File::Find::name if ((stat)[2] & 5) < (-d _ ? 5 : 4) }, $stage);
    is_deeply \@closed, [], 'also where the umask keeps others out: the application has a user of its own';
};

# What systemd takes for the program of a unit's line: by its own words, for a program that is not there.
sub missing_by_systemd {
    my ($unit, $program) = @_;
    my ($verify) = grep { -x } map { "$_/systemd-analyze" } split /:/, $ENV{PATH} or return;
    chmod 0644, $program or die $!;
    my (undef, @said) = run_command($verify, 'verify', '--man=no', $unit);
    chmod 0755, $program or die $!;
    return "@said";
}

subtest 'PREFIX and DESTDIR may have spaces and quotes' => sub {
    my $place = "$top/a 10% place";
    my ($status, $out, $err) = run_command('make', '--no-print-directory', 'install', "PREFIX=$place");
    is $status, 0 or return diag "$out$err";
    like $out, qr{^Installed: \Q$place\E/bin/howdah$}m, 'it says where';
    my ($word) = $out =~ /^For plackup: PERL5LIB=(.*) plackup /m;
    is + (run_command('sh', '-c', "printf %s $word"))[1], "$place/lib/howdah/perl5",
        'and in words for a shell how plackup finds it';
    local $ENV{PERL5LIB} = join ':', "$top/modules", @outside;
    my $port = empty_port();
    my ($body, $end) = ask($port, "$place/bin/howdah", '-l', "127.0.0.1:$port", '--workers', 1, $app);
    is $body, 'found by PERL5LIB', 'it serves' or diag read_if_any("$top/log");
    is $end, 0, 'and ends';

    my $unit = "$place/share/doc/howdah/deploy/howdah\@.service";
    my $said = missing_by_systemd($unit, "$place/bin/howdah");
SKIP: {
        skip 'there is no systemd-analyze', 1 if !defined $said;
        like $said, qr/Command \Q$place\E\/bin\/howdah is not executable/, 'the unit starts what is installed';
    }

    my $stage = "$top/somebody's \"stage\"";
    ($status, $out, $err) =
        run_command('make', '--no-print-directory', 'install', 'PREFIX=/opt/how dah', "DESTDIR=$stage");
    is $status, 0 or diag "$out$err";
    ok -x "$stage/opt/how dah/bin/howdah", 'and it can be staged';
};

subtest './Build install may have spaces, too' => sub {
    my ($base, $stage) = map { "$top/$_ of Build" } qw(base stage);
    my ($status, $out, $err) = run_command('./Build', '--quiet', 'install', '--install_base', $base);
    is $status, 0, '--install_base' or diag "$out$err";
    is + (run_command("$base/bin/howdah", 'check', '-e', 'sub {}'))[0], 0, 'what it installs runs';
    ($status, $out, $err) = run_command('./Build', '--quiet', 'install', '--destdir', $stage);
    is $status, 0, '--destdir' or diag "$out$err";
    ok -x "$stage$Config{installsitebin}/howdah", 'where it is to be staged';
};

subtest "perl's own prefix takes perl's site directories" => sub {
    my $stage = "$top/site";
    my ($status, $out, $err) =
        run_command('make', '--no-print-directory', 'install', "PREFIX=$Config{siteprefix}", "DESTDIR=$stage");
    is $status, 0 or diag "$out$err";
    ok -s "$stage$Config{installsitearch}/Plack/Handler/Howdah.pm", 'where plackup looks';
    ok !-e "$stage$Config{siteprefix}/lib/howdah", 'and only there';
};

done_testing;
