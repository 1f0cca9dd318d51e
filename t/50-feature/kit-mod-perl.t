# Applications of the kit that are kept in the processes of a real mod_perl, and run from scripts there by its Registry, as
# docs/kit.md says; and the same application as a script of mod_cgi's.
use strict;
use warnings;
use lib 't/lib';

use Cwd qw(abs_path);
use File::Copy qw(copy);
use File::Temp ();
use Howdah::Test::Agent;
use Howdah::Test::Apache;
use Test::More;

Howdah::Test::Apache->is_installed(qw(perl alias cgi)) or plan skip_all => 'no httpd with mod_perl is installed';
for my $module (qw(Router::Simple Plack::Middleware::Session::Cookie)) {
    eval "require $module; 1" or plan skip_all => "$module is not installed";    ## no critic (ProhibitStringyEval)
}

# Scripts run as another user if the test is root, who must reach them, and write the guest book.
my $dir = File::Temp->newdir;
chmod 0777, "$dir" or die $!;
mkdir "$dir/lib" or die $!;
for my $file (qw(guestbook.cgi kept.cgi startup.pl lib/Guestbook.pm)) {
    copy("examples/kit/$file", "$dir/$file") or die "cannot copy $file: $!";
    chmod 0755, "$dir/$file" or die $!;
}
my $other = 'Howdah::Kit->build(sub { $_[0]->text("two $$") })->cache("shop");';
write_file('more.pl', "use Howdah::Kit; $other 1;\n");
write_file('shop.cgi', "#!$^X\nHowdah::Kit->cache('shop')->run;\n");
write_file('none.cgi', "#!$^X\nHowdah::Kit->cache('nowhere')->run;\n");
write_file('dies.cgi', "#!$^X\nuse Howdah::Kit; Howdah::Kit::run(sub { die 'hidden' });\n");

sub write_file {
    my ($name, $text) = @_;
    open my $out, '>', "$dir/$name" or die $!;
    print {$out} $text;
    close $out or die $!;
    return chmod 0755, "$dir/$name";
}

my @inc           = map { abs_path($_) } grep { !ref && -d } @INC;
my $configuration = <<"CONF";
PerlSwitches @{[map { "-I$_" } @inc]}
PerlSetEnv GUESTBOOK $dir/guests.txt
PerlRequire $dir/startup.pl
PerlRequire $dir/more.pl
SetEnv GUESTBOOK $dir/guests.txt
SetEnv PERL5LIB @{[join ':', @inc]}
PerlModule ModPerl::Registry
Alias /perl/ $dir/
<Location /perl/>
  SetHandler perl-script
  PerlResponseHandler ModPerl::Registry
  PerlOptions +ParseHeaders
  Options +ExecCGI
</Location>
ScriptAlias /cgi-bin/ $dir/
CONF
my @modules = qw(alias perl env cgi);
my $apache =
    Howdah::Test::Apache->start(mpm => 'prefork', modules => \@modules, type => undef, lines => $configuration);

# What a browser does with the guest book at this address.
sub drive {
    my $at    = shift;
    my $agent = Howdah::Test::Agent->new($apache->url . $at);
    unlink "$dir/guests.txt";
    like $agent->get('/')->decoded_content, qr{<p>Visit 1</p>\n<form method="post" action="$at/entry">}, 'a page';
    my $signed = $agent->post('/entry', [text => "\xc3\xa9t\xc3\xa9 <b>"]);
    is join(' ', $signed->code, $signed->header('Location')), "303 $at/", 'a form, and back';
    like $agent->get('/')->decoded_content, qr{<li>\x{e9}t\x{e9} &lt;b&gt;</li>.*Visit 2}s, 'and the session';
    my $json = $agent->get('/entry/1');
    is $json->content, qq({"line":1,"text":"\xc3\xa9t\xc3\xa9 <b>"}), 'JSON';
    is $json->content_type, 'application/json';
    my $none = $agent->get('/entry/2');
    is join(' ', $none->code, $none->content), "404 There is no entry 2.\n", 'not found, in its own words';
    is join(' ', $agent->curl('/entry/1', '-X', 'DELETE')), "405 Method Not Allowed\n";
    is $agent->post('/entry', [text => "\xff"])->code, 400, 'what is not UTF-8';
    my $large = $agent->post('/entry', [text => 'x' x 200_000]);
    is join(' ', $large->code, -s "$dir/guests.txt"), '303 ' . (length("\xc3\xa9t\xc3\xa9 <b>\n") + 200_001),
        'a long form';
    return $agent;
}

subtest 'kept, and run from a script by Registry' => sub {
    my $agent = drive('/perl/kept.cgi');
    my @where = map { $agent->get('/where')->content } 1 .. 3;
    my ($pid) = $where[0] =~ /^(\d+) 1$/;
    ok $pid, 'the first call' or diag $where[0];
    is_deeply \@where, [map { "$pid $_" } 1 .. 3], 'one process, one application';
    my $shop = Howdah::Test::Agent->new($apache->url)->get('/perl/shop.cgi')->content;
    is $shop, "two $pid", 'another beside it, by its name';
};

subtest 'run by Registry, compiled as a script is' => sub { drive('/perl/guestbook.cgi') };

subtest 'run by mod_cgi' => sub {
    my $agent = drive('/cgi-bin/guestbook.cgi');
    unlike $agent->get('/where')->content, qr/ [^1]/, 'each request is the first of its process';
};

subtest 'errors are for the log' => sub {
    my $agent  = Howdah::Test::Agent->new($apache->url);
    my %reason = (
        'none.cgi' => qr/no application is kept as nowhere .*none\.cgi line \d/,
        'dies.cgi' => qr/hidden at /,
    );
    for my $script (sort keys %reason) {
        my $answer = $agent->get("/perl/$script");
        is $answer->code, 500, $script;
        unlike $answer->content, qr/hidden|nowhere/;
        open my $in, '<', $apache->errors or die $!;
        like join('', <$in>), $reason{$script}, 'the reason is in the error log';
    }
};

done_testing;
